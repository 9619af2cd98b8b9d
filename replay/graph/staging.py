"""Copies between host and device that the driver stages: their device row shows only the last part of them.

Memory that is not pinned is copied piece by piece through a pinned buffer before the DMA that the device records. The
time from the call to the row's begin is then the copy's own, and is kept as the lag of its launch. It is taken for
staging only where nothing else can explain it: the stream was empty when the call was made, and the host waited in a
sync for as long as the copy lasted, as it must for memory that is not pinned.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.calls import SYNCS
from replay.graph.launch_join import Launches
from replay.graph.selection import RankStep
from replay.graph.streams import free_since_ns
from replay.trace import EventKind, Trace

_BY_DMA = "PCIE_DMA"  # CANN's word for copies that cross the host's bus


def staging_ns(trace: Trace, launches: Launches, step: RankStep) -> Int64:
    """Time from the launch call to the begin of each device event of the step that was staged, -1 for all others."""
    events = step.device
    result = np.full(len(events), -1, np.int64)
    crossing = np.array([*(_BY_DMA in name for name in trace.names), False])[trace.name[events]]
    crossing &= (trace.kind[events] == EventKind.MEMCPY) & (launches.call[events] >= 0)
    if not crossing.any():
        return result
    asked = trace.start_ns[launches.call[events]]
    empty = free_since_ns(trace, events) <= asked
    syncs = step.calls[np.isin(launches.call_kind[step.calls], SYNCS)]
    sync_begin, sync_end = trace.start_ns[syncs], trace.end_ns[syncs]
    for at in np.flatnonzero(crossing & empty).tolist():
        event = int(events[at])
        if ((sync_begin <= trace.start_ns[event]) & (sync_end >= trace.end_of(event))).any():
            result[at] = trace.start_ns[event] - asked[at]
    return result
