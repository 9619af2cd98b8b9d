"""What device tasks and communication ops of Ascend are, by the names that CANN gives them (one table each).

A task bears the name of its operator, or of its type as CANN's runtime knows it (``g_taskDesc``); beside it stands the
type of its queue entry as the device's scheduler (STARS) or its sub-graphs (FFTS+) know it, or the core it ran on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from replay.trace import EventKind

_WAITS = frozenset({
    "EVENT_WAIT", "REMOTE_EVENT_WAIT", "IPC_EVENT_WAIT", "CAPTURE_WAIT", "NOTIFY_WAIT", "MEM_WAIT_VALUE", "MEM_WAIT",
})  # fmt: skip
_RECORDS = frozenset({
    "EVENT_RECORD", "IPC_EVENT_RECORD", "CAPTURE_RECORD", "NOTIFY_RECORD", "WRITE_VALUE", "MEM_WRITE_VALUE",
    "IPC_INT_NOTICE",
})  # fmt: skip
_BETWEEN_RANKS = frozenset({"NOTIFY_WAIT", "NOTIFY_RECORD", "WRITE_VALUE"})  # events are between streams of a device
_COPIES = frozenset({
    "MEMCPY_ASYNC", "REDUCE_ASYNC_V2", "SDMA", "PCIE_DMA", "ASYNC_DMA", "ASYNCDMA", "UBDMA", "ROCCE", "RDMA_SEND",
    "RDMA_DB_SEND", "UB_DB_SEND", "DIRECT_SEND",
})  # fmt: skip
OF_COMMUNICATION = frozenset({"HCCL", "COMMUNICATION", "HCCL_AI_CPU"})  # the cores that kernel tables give collectives
_WORK = frozenset({
    "AI_CORE", "AICORE", "AIC", "AI_VECTOR_CORE", "AIV", "MIX_AIC", "MIX_AIV", "AI_CPU", "AICPU", "HOST_CPU", "FFTS",
    "FFTS_PLUS", "KERNEL_AICORE", "KERNEL_AIVEC", "KERNEL_AICPU", "KERNEL_MIX_AIC", "KERNEL_MIX_AIV", "KERNEL_FUSION",
    "FUSION_KERNEL", "FUSION", "KERNEL_SIMT", "SIMT", "STARS_COMMON", "DSA", "DVPP", "VPC", "JPEGE", "JPEGD", "VDEC",
    "CCU", "CCU_LAUNCH", "CMO", "CMO_TASK", "HOSTFUNC_CALLBACK", "NPU_GET_FLOAT_STATUS", "NPU_CLEAR_FLOAT_STATUS",
}) | OF_COMMUNICATION  # fmt: skip
_NO_WORK = frozenset({  # entries that only steer queues, graphs, caches and the profiler
    "PLACE_HOLDER", "PLACEHOLDER", "MAINTENANCE", "CREATE_STREAM", "CREATE_L2_ADDR", "MODEL_EXECUTE", "MODEL_LOAD",
    "MODEL_END_GRAPH", "MODEL_EXIT_GRAPH", "MODEL_TO_AICPU", "MODEL_TASK_UPDATE", "ACTIVE_AICPU_STREAM",
    "STREAM_SWITCH", "STREAM_SWITCH_N", "STREAM_ACTIVE", "STREAM_LABEL_SWITCH_BY_INDEX", "STREAM_LABEL_GOTO",
    "STREAM_TAG_SET", "SET_STREAM_MODE", "LABEL_SET", "LABEL_SWITCH", "LABEL_GOTO", "EVENT_RESET", "TASK_FLIP", "FLIP",
    "PROFILING_ENABLE", "PROFILING_DISABLE", "PROFILER_TRACE", "PROFILER_TRACE_EX", "PROFILER_DYNAMIC_ENABLE",
    "PROFILER_DYNAMIC_DISABLE", "ONLINE_PROF_ENABLE", "ONLINE_PROF_DISABLE", "ADC_PROF", "PC_TRACE", "DATA_DUMP",
    "DATADUMP_LOADINFO", "DEBUG_REGISTER", "DEBUG_UNREGISTER", "DEBUG_REGISTER_FOR_STREAM",
    "DEBUG_UNREGISTER_FOR_STREAM", "DEVICE_RINGBUFFER_CONTROL", "TASK_TIMEOUT_SET", "GET_DEVICE_MSG",
    "OVERFLOW_SWTICH_SET", "OVERFLOW_SWITCH_SET", "GET_STARS_VERSION", "SQ_LOCK_UNLOCK", "UPDATE_ADDRESS",
    "AICPU_INFO_LOAD", "NOP", "COMMON_CMD", "MULTIPLE_TASK", "ALLOC_DSA_ADDR", "RDMA_PI_VALUE_MODIFY",
    "SQE_UPDATE_TASK", "TSFW_AICPU_MSG_VERSION", "C_CORE", "CONDITION", "CDQM", "VQ6", "TOF", "MAX", "DATA_CONTEXT",
    "INVALIDATE_DATA_CONTEXT", "WRITEBACK_DATA_CONTEXT", "LOAD_CONTEXT", "RESERVE", "RSV", "RESV", "UNKNOWN", "INVALID",
})  # fmt: skip
_QUEUES = re.compile(r"^DQS_|^STREAM_|^MODEL_|^DEBUG_|^PROFIL")  # families of them
_SERVER_PHASES = frozenset(
    {"STARTSERVER", "TASKWAITREQUEST", "TASKORCHESTRATION", "TASKLAUNCH", "TASKEXECUTE", "FINALIZE"}
)  # of the processor that serves a fused kernel
_UNTYPED = frozenset({"", "N/A", "NONE", "NULL"})
_SET = re.compile(r"^MEMSET", re.IGNORECASE)
_ENTRY = re.compile(r"_(?:SQE|TASK_TYPE)$")
_BLANK = re.compile(r"[\s-]+")

# HCCL's element types → c10's names, whose sizes are known
DTYPES = {
    "INT8": "Char", "INT16": "Short", "INT32": "Int", "INT64": "Long", "UINT8": "Byte", "UINT16": "UInt16",
    "UINT32": "UInt32", "UINT64": "UInt64", "FP16": "Half", "FLOAT16": "Half", "FP32": "Float", "FLOAT": "Float",
    "FLOAT32": "Float", "FP64": "Double", "BFP16": "BFloat16", "BF16": "BFloat16", "BFLOAT16": "BFloat16",
    "FP8E4M3": "Float8_e4m3fn", "FP8E5M2": "Float8_e5m2", "HIF8": "Byte", "FP8E8M0": "Float8_e8m0fnu",
}  # fmt: skip
NO_DTYPES = frozenset({"", "N/A", "RESERVED", "INVALID_TYPE", "NONE"})

# sub-tasks of collectives that move data, as HCCL's versions name them (PROF_TASK_OP_NAME, TASK_PARAM_TYPE_NAME_MAP)
PAYLOADS = frozenset({"rdmasend", "send_payload"})  # posted by the sender in no time, acknowledged later
EITHER_SIDE = frozenset({  # over UB, by whichever side the algorithm likes
    "ub_write_or_read", "ub_reduce_inline", "write_with_notify", "reuce_with_notify", "reduce_with_notify",
    "dpu_write_with_notify",
})  # fmt: skip
TRANSIT = frozenset({"memcpy", "reduce_inline", "reduce tbe", "reduce_tbe"}) | PAYLOADS | EITHER_SIDE


@dataclass(frozen=True, slots=True)
class Task:
    """What a device task is to a replay: ``kind`` is ``None`` where it is no work and orders nothing."""

    kind: EventKind | None
    name: str
    known: bool = True  # CANN's tables know its type; others count as work


@lru_cache(maxsize=1 << 16)
def task(name: str, task_type: str) -> Task:
    """The task of this name and type. Waits and records are SYNC rows."""
    word, kind = _word(name), _word(task_type)
    if word in _WAITS or word in _RECORDS:
        return Task(EventKind.SYNC, name)
    if _SET.match(name):
        return Task(EventKind.MEMSET, name)
    if word in _COPIES:  # the type tells copies over the host's bus from those inside of the device
        return Task(EventKind.MEMCPY, name if task_type in _UNTYPED or task_type in name else f"{name} ({task_type})")
    if kind in _WORK:
        return Task(EventKind.KERNEL, name)
    if kind in _COPIES:
        return Task(EventKind.MEMCPY, name if task_type in name else f"{name} ({task_type})")
    if kind in _WAITS or kind in _RECORDS:
        return Task(EventKind.SYNC, kind)  # the name does not tell which
    if _steers(kind) or _steers_by_name(word) or (not kind and word in _SERVER_PHASES):
        return Task(None, name)
    return Task(EventKind.KERNEL, name, known=word in _WORK)


def kind_of_task(name: str, task_type: str) -> EventKind | None:
    """Kind of a task, ``None`` for bookkeeping that is no work and orders nothing."""
    return task(name, task_type).kind


@lru_cache(maxsize=1024)
def is_signal(task_type: str) -> bool:
    """True for the types of tasks that move data or signal other ranks: those that carry out collectives."""
    word = _word(task_type)
    return word in _BETWEEN_RANKS or word in _COPIES


@lru_cache(maxsize=1024)
def is_copy(task_type: str) -> bool:
    """True for the types of tasks that move data."""
    return _word(task_type) in _COPIES


@lru_cache(maxsize=1 << 16)
def is_wait(name: str) -> bool:
    """True for the name of a task in which its stream waits."""
    return _word(name) in _WAITS


@lru_cache(maxsize=1 << 16)
def is_record(name: str) -> bool:
    """True for the name of a task that lets others go on."""
    return _word(name) in _RECORDS


def _word(text: str) -> str:
    """A name or type as the tables spell it."""
    word = _ENTRY.sub("", _BLANK.sub("_", text.strip()).upper())
    return "" if word in _UNTYPED else word


def _steers(word: str) -> bool:
    return word in _NO_WORK or bool(_QUEUES.match(word))


def _steers_by_name(word: str) -> bool:
    """By the name alone only where it can be no operator's, such as Max or Flip."""
    return "_" in word and _steers(word)
