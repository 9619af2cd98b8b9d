"""Names of communication: kernels and host ops of NCCL, RCCL, HCCL, Gloo, DeepEP, NVSHMEM; dtype sizes."""

from __future__ import annotations

import re

from replay.trace import CollectiveKind as K

# Word inside a normalised name (lower case, no separators) → kind; the first match wins.
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
)
_LIBRARY_KERNEL = re.compile(r"(?:\bm?(?:nccl|rccl|mscclKernel|hccl))|^hcom_|ncclDevKernel|ncclKernel", re.IGNORECASE)
_EXPERT_KERNEL = re.compile(
    r"(?:deep_?ep|dpsk::ep|\bep)::.*?(?P<what>notify|dispatch|combine)|"
    r"\b(?:internode|intranode|internode_ll)::.*?(?P<what2>notify|dispatch|combine)",
    re.IGNORECASE,
)
_NVSHMEM = re.compile(r"nvshmem|rocshmem", re.IGNORECASE)
_HOST_OP = re.compile(r"^(?:c10d::|nccl:|gloo:|hccl:|rccl:|ucc:|mpi:|_c10d_functional::)", re.IGNORECASE)
_SUSPECT = re.compile(
    r"nccl|rccl|hccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|all2all|a2a|send_?recv|nvshmem|rocshmem|"
    r"(?:^|::|_)dispatch|(?:^|::|_)combine|cross_device_reduce|one_?shot|two_?shot|multimem",
    re.IGNORECASE,
)
_NOT_TRANSFERS = frozenset({"wait", "init", "monitored_barrier", "coalesced", "end_coalesced", "start_coalesced"})

DTYPE_NBYTES: dict[str, int] = {
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "byte": 1, "char": 1, "bool": 1, "unsigned char": 1, "signed char": 1, "int8": 1, "uint8": 1,
    "half": 2, "bfloat16": 2, "short": 2, "short int": 2, "float16": 2, "int16": 2, "uint16": 2,
    "float": 4, "int": 4, "float32": 4, "int32": 4, "uint32": 4, "complexhalf": 4,
    "double": 8, "long": 8, "long int": 8, "float64": 8, "int64": 8, "uint64": 8, "complexfloat": 8,
    "complexdouble": 16,
}  # fmt: skip


def dtype_nbytes(dtype: str) -> int:
    """Bytes of one element of a c10 or C++ type name, 0 where unknown."""
    return DTYPE_NBYTES.get(dtype.lower().removeprefix("c10::").removeprefix("at::"), 0)


def is_transfer(collective_name: str) -> bool:
    """False for names of record_param_comms that move no data (wait, init, …)."""
    return collective_name.lower() not in _NOT_TRANSFERS


def kind_of_name(name: str) -> K:
    """Kind of a "Collective name" or host op name, UNKNOWN where no word of it tells."""
    flat = re.sub(r"[_\s:.\-]", "", name.lower())
    return next((kind for word, kind in _WORDS if word in flat), K.UNKNOWN)


def kind_of_kernel(name: str) -> K | None:
    """Kind of a device communication kernel by its name, ``None`` where it is not one."""
    expert = _EXPERT_KERNEL.search(name)
    if expert:
        return K[(expert["what"] or expert["what2"]).upper()]
    if _LIBRARY_KERNEL.search(name):
        return kind_of_name(name.split("(", 1)[0])
    if _NVSHMEM.search(name):
        return kind_of_name(name.split("(", 1)[0].split("<", 1)[0])
    return None


def is_comm_host_op(name: str) -> bool:
    """True for host ranges that wrap one communication call (c10d::allreduce_, nccl:all_reduce, gloo:…)."""
    return name == "record_param_comms" or bool(_HOST_OP.match(name))


def looks_like_communication(name: str) -> bool:
    """True where a kernel's name suggests communication, recognised or not."""
    return bool(_SUSPECT.search(name))
