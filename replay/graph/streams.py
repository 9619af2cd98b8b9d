"""Stream order: device work of one stream runs in the order in which it ran.

Consecutive work that overlapped (programmatic dependent launch, concurrent branches of a device graph) keeps its
measured overlap as a negative lag; inside one graph launch the measured gap is the device's own and is kept too.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.calls import CallKind
from replay.graph.device import DeviceOps
from replay.graph.launch_join import Launches
from replay.trace import Trace


def stream_order(trace: Trace, launches: Launches, ops: DeviceOps) -> tuple[Int64, Int64, Int64, Bool]:
    """(source event, target event, lag ns, in graph): consecutive device events of each stream.

    Lags below zero and lags inside one graph launch are measured properties of the pair; lag 0 stands for the trace's
    one stream gap, to be learned.
    """
    events = np.array(sorted(ops.first), np.int64)
    order = np.lexsort((trace.end_ns[events], trace.start_ns[events], trace.lane[events]))
    events = events[order]
    same = trace.lane[events[1:]] == trace.lane[events[:-1]]
    source, target = events[:-1][same], events[1:][same]
    gap = trace.start_ns[target] - trace.end_ns[source]
    call = launches.call[source]
    one_launch = (call >= 0) & (call == launches.call[target]) & (launches.call_kind[call] == CallKind.GRAPH_LAUNCH)
    return source, target, np.where((gap < 0) | one_launch, gap, 0), one_launch


def free_since_ns(trace: Trace, events: Int64) -> Int64:
    """When the stream of each of ``events`` had done all of them that began before it; 0 for its first."""
    found = np.zeros(len(events), np.int64)
    start, end, lane = trace.start_ns[events], trace.end_ns[events], trace.lane[events]
    for stream in np.unique(lane):
        mine = np.flatnonzero(lane == stream)
        mine = mine[np.argsort(start[mine], kind="stable")]
        reach = np.append(0, np.maximum.accumulate(end[mine]))
        found[mine] = reach[np.searchsorted(start[mine], start[mine])]
    return found
