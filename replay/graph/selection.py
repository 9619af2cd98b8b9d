"""The events of one step: which host calls and which device work belong to it (R0).

Device work belongs to the step when its launch call does. Work that was launched earlier and is still queued or
running when the step begins is *backlog*: it enters as ops without a launch, cut at the step's begin, so that a slower
device slows what the step has to wait for as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.calls import CallKind
from replay.graph.host_compute import computes_on_host, operators, wrapping_names
from replay.graph.launch_join import Launches
from replay.graph.step import Step
from replay.trace import Trace


@dataclass(frozen=True, slots=True)
class RankStep:
    """Events of one rank that make up the step; index arrays are sorted by start."""

    rank: int
    begin_ns: int
    host_end_ns: int
    calls: Int64  # interaction calls on all host threads
    early: Int64  # calls before the step that order its backlog
    host_compute: Int64  # operators of a rank without a device: the host is what computes
    device: Int64
    backlog: Bool  # per device event: launched before the step
    orphans: int  # device events inside the step without a launch call


def spans_ns(trace: Trace, launches: Launches, steps: tuple[Step, ...]) -> Int64:
    """R0 span of every step: first host op to the end of the last host or device op that belongs to it."""
    device = np.flatnonzero(trace.is_device & (launches.call >= 0))
    launched_at = trace.start_ns[launches.call[device]]
    ends, ranks = trace.end_ns[device], trace.rank[device]
    spans = []
    for step in steps:
        last = max(step.end_ns.values())
        for rank, begin in step.begin_ns.items():
            inside = (ranks == rank) & (launched_at >= begin) & (launched_at < step.end_ns[rank])
            last = max(last, int(ends[inside].max(initial=last)))
        spans.append(last - min(step.begin_ns.values()))
    return np.array(spans, np.int64)


def select(trace: Trace, launches: Launches, step: Step) -> tuple[RankStep, ...]:
    """Events of every rank that takes part in ``step``."""
    ranks = sorted(step.begin_ns)
    on_host = {rank for rank in ranks if computes_on_host(trace, rank)}
    wraps = wrapping_names(trace) if on_host else None
    return tuple(_select_rank(trace, launches, step, rank, wraps if rank in on_host else None) for rank in ranks)


def _select_rank(trace: Trace, launches: Launches, step: Step, rank: int, wraps: Bool | None) -> RankStep:
    """``wraps`` is given for a rank that computes on its host."""
    begin, end = step.begin_ns[rank], step.end_ns[rank]
    here = trace.rank == rank
    in_window = here & (trace.start_ns >= begin) & (trace.start_ns < end)
    calls = np.flatnonzero(in_window & (launches.call_kind != CallKind.NONE))
    device = np.flatnonzero(here & trace.is_device & (trace.dur_ns >= 0))
    launch_ns = np.where(launches.call[device] >= 0, trace.start_ns[launches.call[device]], np.iinfo(np.int64).min)
    orphan = launches.call[device] < 0
    own = ~orphan & (launch_ns >= begin) & (launch_ns < end)
    last = int(trace.end_ns[device[own]].max(initial=0)) if own.any() else end
    orphan_inside = orphan & (trace.start_ns[device] >= begin) & (trace.start_ns[device] <= last)
    backlog = ~own & ~orphan_inside & (launch_ns < begin) & (trace.end_ns[device] > begin)
    backlog &= trace.start_ns[device] <= last
    keep = own | orphan_inside | backlog
    oldest = int(launch_ns[backlog & ~orphan].min(initial=begin))
    early = np.flatnonzero(
        here & (launches.call_kind != CallKind.NONE) & (trace.start_ns >= oldest) & (trace.start_ns < begin)
    )
    host_compute = np.zeros(0, np.int64) if wraps is None else operators(trace, in_window, calls, wraps)
    return RankStep(
        rank=rank,
        begin_ns=begin,
        host_end_ns=end,
        calls=calls,
        early=early,
        host_compute=host_compute,
        device=device[keep],
        backlog=backlog[keep],
        orphans=int((orphan_inside & keep).sum()),
    )
