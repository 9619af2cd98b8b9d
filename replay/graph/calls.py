"""What a runtime or driver call does to the order of things, read from its name.

Sources: CUDA Runtime and Driver API, HIP API, Ascend ACL naming; the names Kineto writes are the API's own.
"""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np

from replay.core.columns import Int8


class CallKind(IntEnum):
    """Interaction of a host call with the device."""

    NONE = 0  # plain host work (queries, attributes, …)
    LAUNCH = 1  # puts device work on a stream; joined to it by correlation
    GRAPH_LAUNCH = 2
    COPY = 3  # memory copy; blocks when the memory is pageable
    SYNC_DEVICE = 4
    SYNC_STREAM = 5
    SYNC_EVENT = 6
    EVENT_RECORD = 7
    STREAM_WAIT = 8
    ALLOC = 9  # may synchronise the device (cudaMalloc, cudaFree, …)
    ENQUEUE = 10  # hands a transfer to threads of the host (c10d operators of a rank without a device)
    POST = 11  # posts a send or receive on the host


# First match wins. Anything that launches device work under another name is still found by its correlation.
_PATTERNS: tuple[tuple[str, CallKind], ...] = (
    (r"(cuda|hip|cu|acl\w*)GraphLaunch|aclmdl(RI)?Execute|ModelExecute", CallKind.GRAPH_LAUNCH),
    (r"(cuda|hip)DeviceSynchronize|cuCtxSynchronize|aclrtSynchronizeDevice", CallKind.SYNC_DEVICE),
    (r"(cuda|hip|cu|aclrt)(Stream)?Synchronize(Stream)?|(cuda|hip|cu)StreamSynchronize", CallKind.SYNC_STREAM),
    (r"(cuda|hip|cu)EventSynchronize|aclrtSynchronizeEvent", CallKind.SYNC_EVENT),
    (r"(cuda|hip|cu)EventRecord|aclrtRecordEvent", CallKind.EVENT_RECORD),
    (r"(cuda|hip|cu)StreamWaitEvent|aclrtStreamWaitEvent", CallKind.STREAM_WAIT),
    (r"(cuda|hip|cu)Memcpy|aclrtMemcpy", CallKind.COPY),
    (r"(cuda|hip)(Malloc|Free)(Host|Managed|Async)?$|(cuda|hip)HostAlloc|aclrt(Malloc|Free)", CallKind.ALLOC),
    (r"cuMem(Alloc|Free|Map|Unmap|Create|Release|SetAccess)", CallKind.ALLOC),
    (r"aten::_local_scalar_dense$", CallKind.SYNC_STREAM),  # reads a value back; calls where no runtime is recorded
    (r"aten::copy_$", CallKind.COPY),
    (r"c10d::(send|recv)", CallKind.POST),
    (r"c10d::", CallKind.ENQUEUE),
    (r".*Launch.*Kernel|.*LaunchCooperative|(cuda|hip|cu)Memset|aclrtMemset|aclrtLaunch", CallKind.LAUNCH),
)
_COMPILED = tuple((re.compile(pattern), kind) for pattern, kind in _PATTERNS)


CANN_LAYER = re.compile(r"^(?P<layer>AscendCL|Runtime|Node|Model|Hccl|HCCL|Communication)@")
"""How CANN begins the name of a call: with the layer that makes it."""


def call_kind(name: str) -> CallKind:
    """Kind of the call named ``name`` (API suffixes like ``_ptsz`` and ``_v2`` do not matter)."""
    name = CANN_LAYER.sub("", name)
    for pattern, kind in _COMPILED:
        if pattern.match(name):
            return kind
    return CallKind.NONE


def kinds_of(names: tuple[str, ...]) -> Int8:
    """Kind of every name, index = name code."""
    return np.fromiter((call_kind(name) for name in names), dtype=np.int8, count=len(names))


HANDING_OVER = (CallKind.ENQUEUE, CallKind.POST)
SYNCS = (CallKind.SYNC_DEVICE, CallKind.SYNC_STREAM, CallKind.SYNC_EVENT)
