"""Which operators of a rank without a device are its compute: the host counterpart of kernels.

Operators nest. One that only wraps others (autograd's nodes, custom functions) is looked through, so that what it
calls counts one by one, with shapes of its own, and its own time is host time; one that does the work itself, or most
of it, counts as a whole. Whether a name wraps is decided over the whole trace, so that every layer is cut alike.
Operators that hand over a transfer are never compute, nor are those around them.
"""

from __future__ import annotations

import re

import numpy as np

from replay.core.columns import Bool, Int32, Int64
from replay.core.jit import kernel
from replay.trace import ON_HOST, EventKind, Trace

_WORKS_BY_ITSELF = re.compile(r"aten::|prims::|quantized::|mkldnn|onednn|torchvision::|xformers", re.IGNORECASE)
_WAITS = re.compile(r"::wait_tensor$")
_MOSTLY = 0.5  # of its time in other operators: it wraps them


def computes_on_host(trace: Trace, rank: int) -> bool:
    """Whether a rank has no device: all its streams, if any, are carried out by threads of the host."""
    lanes = np.unique(trace.lane[(trace.rank == rank) & trace.is_device])
    return all(trace.lanes[lane].device == ON_HOST for lane in lanes.tolist())


def operators(trace: Trace, inside: Bool, calls: Int64, wraps: Bool) -> Int64:
    """Compute operators among the events ``inside``; ``calls`` are the rank's interaction calls in the step.

    ``wraps`` tells the names that are looked through (:func:`wrapping_names`).
    """
    ops = np.flatnonzero(inside & (trace.kind == EventKind.CPU_OP) & (trace.comm < 0))
    if not len(ops):
        return ops
    opaque = ~wraps[trace.name[ops]]
    keep = []
    end_ns = trace.end_ns
    for lane in np.unique(trace.lane[ops]):
        mine = trace.lane[ops] == lane
        own = ops[mine]
        own_calls = np.sort(trace.start_ns[calls[trace.lane[calls] == lane]])
        holds = np.searchsorted(own_calls, trace.start_ns[own]) < np.searchsorted(own_calls, end_ns[own])
        chosen = own[~holds & opaque[mine]]
        reach = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end_ns[chosen])[:-1])
        keep.append(chosen[end_ns[chosen] > reach])
    return np.sort(np.concatenate(keep))


def wrapping_names(trace: Trace) -> Bool:
    """Per name: operators that wait, and those that spend most of their time in others."""
    ops = np.flatnonzero(trace.kind == EventKind.CPU_OP)
    inner = _inner_ns(trace, ops)
    own, within = (np.zeros(len(trace.names)) for _ in range(2))
    np.add.at(own, trace.name[ops], trace.dur_ns[ops])
    np.add.at(within, trace.name[ops], inner)
    by_itself = np.array([_WORKS_BY_ITSELF.match(name) is not None for name in trace.names], np.bool_)
    waits = np.array([_WAITS.search(name) is not None for name in trace.names], np.bool_)
    return np.asarray(waits | (~by_itself & (within > _MOSTLY * own)))


def _inner_ns(trace: Trace, ops: Int64) -> Int64:
    """Time each operator spends in operators directly inside of it, ns."""
    order = np.lexsort((-trace.dur_ns[ops], trace.start_ns[ops], trace.lane[ops]))
    rows = ops[order]
    inner = np.zeros(len(ops), np.int64)
    inner[order] = _sum_children(trace.lane[rows], trace.start_ns[rows], trace.end_ns[rows])
    return inner


@kernel
def _sum_children(lane: Int32, start: Int64, end: Int64) -> Int64:  # pragma: no cover - compiled
    inner = np.zeros(len(lane), np.int64)
    stack = np.empty(len(lane), np.int64)
    depth = 0
    for at in range(len(lane)):
        while depth > 0 and (lane[stack[depth - 1]] != lane[at] or end[stack[depth - 1]] <= start[at]):
            depth -= 1
        if depth > 0:
            inner[stack[depth - 1]] += end[at] - start[at]
        stack[depth] = at
        depth += 1
    return inner
