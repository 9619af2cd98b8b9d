"""Copies between host and device that the driver stages: their device row shows only the last part of them.

Memory that is not pinned is copied piece by piece through a pinned buffer before the DMA that the device records. The
time from the call to the row's begin is then the copy's own, and is kept as the lag of its launch. It is taken for
staging only where nothing else can explain it: the stream was empty when the call was made, and the host waited for as
long as the copy lasted, as it must for memory that is not pinned.

CANN's calls return at once, and the wait is another call's. CUDA's and HIP's block until they have staged, so what
blocked calls cost (:mod:`replay.graph.waits`) already says it there: nine real traces replay no better with this rule.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.calls import SYNCS, CallKind
from replay.graph.launch_join import Launches
from replay.graph.number import RankParts
from replay.graph.streams import free_since_ns
from replay.trace import EventKind, Trace

BY_DMA = "PCIE_DMA"  # CANN's word for copies that cross the host's bus


def staging_ns(trace: Trace, launches: Launches, part: RankParts) -> Int64:
    """Time from the launch call to the begin of each device event of the step that was staged, -1 for all others."""
    events = part.step.device
    result = np.full(len(events), -1, np.int64)
    crossing = np.array([*(BY_DMA in name for name in trace.names), False])[trace.name[events]]
    crossing &= (trace.kind[events] == EventKind.MEMCPY) & (launches.call[events] >= 0)
    if not crossing.any():
        return result
    asked = trace.start_ns[launches.call[events]]
    empty = free_since_ns(trace, events) <= asked
    begin, end = _waiting(trace, launches, part)
    for at in np.flatnonzero(crossing & empty).tolist():
        event = int(events[at])
        if ((begin <= trace.start_ns[event]) & (end >= trace.end_of(event))).any():
            result[at] = trace.start_ns[event] - asked[at]
    return result


def _waiting(trace: Trace, launches: Launches, part: RankParts) -> tuple[Int64, Int64]:
    """Begin and end of the times in which host threads of the rank waited, in calls or silently."""
    calls = part.step.calls[np.isin(launches.call_kind[part.step.calls], (*SYNCS, CallKind.COPY))]
    silences = [wait for wait, _ in part.host.transfers]
    begin = np.array([wait.from_ns for wait in silences], np.int64)
    end = np.array([wait.until_ns for wait in silences], np.int64)
    return np.concatenate([trace.start_ns[calls], begin]), np.concatenate([trace.end_ns[calls], end])
