"""Names of communication: device kernels and host ops. One table each; nothing else knows a name."""

from __future__ import annotations

import re
from functools import lru_cache

from replay.core.dtypes import element_nbytes
from replay.trace import CollectiveKind as K

# Word inside a name without separators, lower case -> kind; the first that is found wins.
_WORDS: tuple[tuple[str, K], ...] = (
    ("allreduce", K.ALL_REDUCE),
    ("reducescatter", K.REDUCE_SCATTER),
    ("allgather", K.ALL_GATHER),
    ("alltoall", K.ALL_TO_ALL),
    ("all2all", K.ALL_TO_ALL),
    ("sendrecv", K.SEND_RECV),
    ("broadcast", K.BROADCAST),
    ("barrier", K.BARRIER),
    ("gather", K.GATHER),
    ("scatter", K.SCATTER),
    ("reduce", K.REDUCE),
    ("send", K.SEND),
    ("recv", K.RECV),
    ("receive", K.RECV),
)

# Expert dispatchers (DeepEP and its builds): a namespace, then the word that tells; the layout kernels only count.
_EXPERT_KERNEL = re.compile(
    r"(?:deep_?ep|dpsk::ep|\bep|\binter_?node(?:_ll)?|\bintra_?node)::(?:\w+::)*"
    r"\w*?(?P<word>notify|dispatch|combine)",
    re.IGNORECASE,
)
_EXPERT_LAYOUT = re.compile(r"get_dispatch_layout|layout::", re.IGNORECASE)

# Ascend's kernels that compute and communicate, or dispatch experts; the word tells the kind.
_ASCEND_EXPERT = re.compile(r"moedistribute(?P<word>dispatch|combine)", re.IGNORECASE)
_ASCEND_FUSED = re.compile(
    r"(?:quant)?(?:grouped|batch)?matmul(?:v\d)?(?P<after>all_?reduce|reduce_?scatter|all_?to_?allv?)"
    r"|(?P<before>all_?gather|all_?to_?allv?)(?:quant)?(?:all_?gather)?(?:grouped|batch)?matmul",
    re.IGNORECASE,
)

# Collectives written by others; the kind is told by _WORDS where the third column is None.
_DEVICE_KERNELS: tuple[tuple[str, re.Pattern[str], K | None], ...] = (
    ("NCCL, RCCL, HCCL", re.compile(r"\b(?:nccl|rccl|hccl|hcom_)", re.IGNORECASE), None),
    ("HCCL on vector cores", re.compile(r"^aiv_(?:all|reduce|broadcast|scatter|send|recv)|AivKernel$", re.I), None),
    ("LCCL", re.compile(r"\blc[ac]l|^kernel_aivec", re.IGNORECASE), None),
    ("MSCCL", re.compile(r"\bmscclKernel|\bmscclpp::", re.IGNORECASE), None),
    ("NVSHMEM", re.compile(r"(?:nv|roc)shmem", re.IGNORECASE), None),
    ("vLLM, AITER", re.compile(r"\bcross_device_reduce"), K.ALL_REDUCE),
    ("symmetric memory", re.compile(r"\b(?:one_shot|two_shot|multimem)_(?:all|reduce)_"), None),
    ("TensorRT-LLM, FlashInfer", re.compile(r"\ballreduce_fusion_kernel|::ar_fusion::"), K.ALL_REDUCE),
)

# Every pattern above needs one of these in the lower-case name: plain search is ten times faster than the patterns.
_HINTS = ("nccl", "rccl", "hccl", "hcom_", "mscc", "shmem", "cross_device", "_shot_", "multimem", "allreduce_",
          "ar_fusion", "ep::", "node::", "node_ll::",
          "lcal", "lccl", "aiv_", "aivkernel", "kernel_aivec", "moedistribute", "matmul")  # fmt: skip

_HOST_OP = re.compile(r"(?:c10d::|nccl:|gloo:|hccl:|rccl:|ucc:|mpi:|_c10d_functional::)", re.IGNORECASE)
_HOST_TRANSFER = re.compile(r"(?:gloo|ucc|mpi):", re.IGNORECASE)
_DEVICE_ENQUEUE = re.compile(r"(?:nccl|rccl|hccl):", re.IGNORECASE)
_PEER = re.compile(r":(?:send \d+->|recv \d+<-)(\d+)")
_SUSPECT_WORDS = (
    "nccl", "rccl", "hccl", "allreduce", "all_reduce", "allgather", "all_gather", "reduce_scatter", "reducescatter",
    "alltoall", "all_to_all", "all2all", "a2a", "sendrecv", "send_recv", "shmem", "userbuffers", "cross_device",
    "oneshot", "one_shot", "twoshot", "two_shot", "multimem",
)  # fmt: skip
_SUSPECT_FUNCTION = re.compile(r"(?:^|::|\s|_)(?:dispatch|combine)(?=[<(_]|$)", re.IGNORECASE)
_NOT_TRANSFERS = frozenset({"wait", "init", "coalesced", "start_coalesced", "end_coalesced", "pg_start", "pg_end"})


def dtype_nbytes(dtype: str) -> int:
    """Bytes of one element of a c10 or C++ type name, 0 where unknown."""
    return element_nbytes(dtype) or 0


def is_transfer(collective_name: str) -> bool:
    """False for names of record_param_comms that move no data (wait, init, …)."""
    return collective_name.lower() not in _NOT_TRANSFERS


@lru_cache(maxsize=1 << 16)
def kind_of_name(name: str) -> K:
    """Kind of a "Collective name" or host op name, UNKNOWN where no word of it tells."""
    flat = re.sub(r"[_\s:.\-]", "", name.lower())
    return next((kind for word, kind in _WORDS if word in flat), K.UNKNOWN)


def kind_of_kernel(name: str) -> K | None:
    """Kind of a device communication kernel by its name, ``None`` where it is not one."""
    lower = name.lower()
    if not any(hint in lower for hint in _HINTS):
        return None
    expert = _EXPERT_KERNEL.search(name)
    if expert:
        return None if _EXPERT_LAYOUT.search(name) else K[expert["word"].upper()]
    ascend = _ASCEND_EXPERT.search(name) or _ASCEND_FUSED.search(name)
    if ascend:
        return K[ascend["word"].upper()] if "word" in ascend.groupdict() else kind_of_name(_fused_word(ascend))
    for _, pattern, kind in _DEVICE_KERNELS:
        if pattern.search(name):
            return kind_of_name(re.split(r"[(<]", name, maxsplit=1)[0]) if kind is None else kind
    return None


def _fused_word(fused: re.Match[str]) -> str:
    return str(fused["after"] or fused["before"])


def is_comm_host_op(name: str) -> bool:
    """True for host ranges that wrap one communication call (record_param_comms, c10d::…, nccl:…, gloo:…)."""
    return name == "record_param_comms" or bool(_HOST_OP.match(name))


def is_host_transfer(name: str) -> bool:
    """True for ranges in which the host itself moves the data."""
    return bool(_HOST_TRANSFER.match(name))


def is_device_enqueue(name: str) -> bool:
    """True for ranges that only enqueue a device collective."""
    return bool(_DEVICE_ENQUEUE.match(name))


def peer_in_group(name: str) -> int:
    """Peer of ``nccl:send 2->3`` or ``nccl:recv 3<-2``, counted inside its group; -1 for other names."""
    found = _PEER.search(name)
    return int(found[1]) if found else -1


def looks_like_communication(name: str) -> bool:
    """True where a kernel's name suggests communication, recognised or not."""
    lower = name.lower()
    if any(word in lower for word in _SUSPECT_WORDS):
        return not _EXPERT_LAYOUT.search(name)
    if "dispatch" not in lower and "combine" not in lower:
        return False
    return bool(_SUSPECT_FUNCTION.search(name)) and not _EXPERT_LAYOUT.search(name)
