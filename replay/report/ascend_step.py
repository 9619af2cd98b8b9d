"""Where a step goes by Ascend's own definitions, to be held against ``step_trace_time.csv``.

Computing is the time in which at least one compute task runs, Communication that of the collectives, Free what neither
covers. They are sums over whole stretches of the recording that *begin* in the step's device range: from the first
kernel that the step launched to the end of the last one, or of the step on the host if that is later. A stretch over a
border counts as a whole, as it does there. Copies count as Free. (torch_npu's step parser, msprof's overlap viewer.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.launch_join import join_launches
from replay.graph.step import Step, find_steps
from replay.trace import EventKind, Trace


@dataclass(frozen=True, slots=True)
class StepTime:
    """One row of ``step_trace_time.csv``, ns; ``communication_ns`` is the sum of the two before it."""

    rank: int
    step: str
    computing_ns: int
    not_overlapped_ns: int
    overlapped_ns: int
    communication_ns: int
    free_ns: int


def step_times(trace: Trace) -> tuple[StepTime, ...]:
    """Every step of every rank. Ranks without device work in a step are left out."""
    launches = join_launches(trace)
    steps = find_steps(trace, launches).steps
    launched = np.where(launches.call >= 0, trace.start_ns[launches.call], np.iinfo(np.int64).min)
    fused = np.zeros(len(trace), np.bool_)
    fused[_fused(trace)] = True
    rows = []
    for rank in trace.ranks:
        kernel = (trace.rank == rank) & (trace.kind == EventKind.KERNEL)
        computing = _union(trace, kernel & ((trace.comm < 0) | fused))
        communication = _union(trace, kernel & (trace.comm >= 0))
        alone, busy = _difference(communication, computing), _merged(np.concatenate([computing, communication]))
        free = np.column_stack([busy[:-1, 1], busy[1:, 0]]) if len(busy) else busy
        for step in steps:
            bounds = _device_range(trace, kernel, launched, step, rank)
            if bounds is not None:
                total = [_starting_in(part, bounds) for part in (computing, alone, communication, free)]
                rows.append(StepTime(rank, step.label, total[0], total[1], total[2] - total[1], total[2], total[3]))
    return tuple(rows)


def _fused(trace: Trace) -> Int64:
    """Kernels that compute and communicate in one (MC2): they count on both sides."""
    details = trace.details
    if details is None:
        return np.zeros(0, np.int64)
    computes = np.array([core.startswith(("AI_CORE", "MIX_AI", "AI_VECTOR")) for core in details.core], np.bool_)
    return details.event[computes] if len(details) else details.event


def _device_range(trace: Trace, kernel: Bool, launched: Int64, step: Step, rank: int) -> tuple[int, int] | None:
    if rank not in step.begin_ns:
        return None
    begin, end = step.begin_ns[rank], step.end_ns[rank]
    own = kernel & (launched >= begin) & (launched < end)
    if not own.any():
        return None
    return int(trace.start_ns[own].min()), max(int(trace.end_ns[own].max()), end)


def _union(trace: Trace, events: Bool) -> Int64:
    return _merged(np.column_stack([trace.start_ns[events], trace.end_ns[events]]))


def _merged(spans: Int64) -> Int64:
    """Stretches covered by any of ``spans`` (rows of begin, end), in order."""
    if not len(spans):
        return spans.reshape(0, 2)
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.append(True, spans[1:, 0] > reach[:-1])
    last = np.append(np.flatnonzero(first)[1:] - 1, len(spans) - 1)
    return np.column_stack([spans[first, 0], reach[last]])


def _difference(spans: Int64, without: Int64) -> Int64:
    """Stretches of ``spans`` outside of ``without``; both are merged."""
    pieces = []
    for begin, end in spans.tolist():
        at = begin
        first, last = np.searchsorted(without[:, 1], begin, side="right"), np.searchsorted(without[:, 0], end)
        for low, high in without[first:last].tolist():
            if low > at:
                pieces.append((at, low))
            at = max(at, high)
        if at < end:
            pieces.append((at, end))
    return np.array(pieces, np.int64).reshape(-1, 2)


def _starting_in(spans: Int64, bounds: tuple[int, int]) -> int:
    inside = (spans[:, 0] >= bounds[0]) & (spans[:, 0] <= bounds[1])
    return int((spans[inside, 1] - spans[inside, 0]).sum())
