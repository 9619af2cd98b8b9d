"""What device tasks and communication ops of Ascend are, by the names that CANN gives them (one table each)."""

from __future__ import annotations

import re

from replay.trace import EventKind

_WAIT = re.compile(r"(?:EVENT|NOTIFY|MEM|CAPTURE)[_ ]WAIT", re.IGNORECASE)
_RECORD = re.compile(r"(?:EVENT|NOTIFY|CAPTURE)[_ ]RECORD|WRITE[_ ]VALUE|MEM_WRITE_VALUE", re.IGNORECASE)
_COPY = re.compile(r"MEMCPY|^SDMA|PCIE_DMA|^ASYNC_DMA", re.IGNORECASE)
_SET = re.compile(r"^MEMSET", re.IGNORECASE)
_WORK = re.compile(r"AI_?CORE|AI_?VECTOR|MIX_AI|AI_?CPU|KERNEL|FFTS|DSA|DVPP|AIV|AIC|FUSION", re.IGNORECASE)
_BOOKKEEPING = re.compile(r"_SQE$|^(?:PLACE_HOLDER|PROFILING|MAINTENANCE|STARS|MODEL|FLIP|LABEL|DEBUG)|^[A-Z_ ]+$")

# HCCL's element types → c10's names, whose sizes are known
DTYPES = {
    "INT8": "Char", "INT16": "Short", "INT32": "Int", "INT64": "Long",
    "UINT8": "Byte", "UINT16": "UInt16", "UINT32": "UInt32", "UINT64": "UInt64",
    "FP16": "Half", "FP32": "Float", "FP64": "Double", "BFP16": "BFloat16", "BF16": "BFloat16",
    "FP8E4M3": "Float8_e4m3fn", "FP8E5M2": "Float8_e5m2", "HIF8": "Byte", "FP8E8M0": "Float8_e8m0fnu",
}  # fmt: skip

TRANSIT = frozenset({"memcpy", "reduce_inline", "reduce tbe", "rdmasend"})
_LOCAL_RANK = 4294967295  # -1 as uint32


def kind_of_task(name: str, task_type: str) -> EventKind | None:
    """Kind of a task of the hardware rows, ``None`` for bookkeeping that is no work and orders nothing.

    Waits and records are SYNC rows; a task of unknown type counts as work unless it looks like a queue entry.
    """
    if is_wait(name) or is_record(name):
        return EventKind.SYNC
    if _SET.search(name):
        return EventKind.MEMSET
    if _COPY.search(name):
        return EventKind.MEMCPY
    if _WORK.search(task_type):
        return EventKind.KERNEL
    if _COPY.search(task_type):
        return EventKind.MEMCPY
    if is_wait(task_type) or is_record(task_type):
        return EventKind.SYNC
    return None if _BOOKKEEPING.search(task_type) or (not task_type and _BOOKKEEPING.search(name)) else EventKind.KERNEL


def is_wait(name: str) -> bool:
    """True for tasks in which a stream waits for an event or a notify."""
    return bool(_WAIT.match(name))


def is_record(name: str) -> bool:
    """True for tasks that record an event or a notify."""
    return bool(_RECORD.match(name))


def is_remote(source: int, target: int) -> bool:
    """True where a sub-task of a collective concerns another rank."""
    return source >= 0 and target >= 0 and _LOCAL_RANK not in (source, target) and source != target
