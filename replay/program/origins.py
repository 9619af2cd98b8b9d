"""Where each op comes from: the host lane and the time at which it was launched, or at which it ran on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int32, Int64
from replay.graph.task_queue import task_queue
from replay.graph.types import DEVICE_OPS, Graph
from replay.trace import MISSING, EventKind, Trace


@dataclass(frozen=True, slots=True)
class Origins:
    """One row per op: trace lane and trace time of its origin (-1 not known), its rank, and whether a device ran it."""

    lane: Int32
    time_ns: Int64
    rank: Int32
    on_device: Bool

    def window_ns(self, rank: int) -> tuple[int, int] | None:
        """First and last origin of the step's own work on a rank, ``None`` where it has no work.

        Where the host is in the step, its ops decide: devices may still run what was launched before.
        """
        own = (self.rank == rank) & (self.time_ns >= 0)
        hosted = own & ~self.on_device
        times = self.time_ns[hosted if hosted.any() else own]
        return (int(times.min()), int(times.max())) if len(times) else None


def origins(graph: Graph, trace: Trace) -> Origins:
    """Origin of every op.

    Device work: the runtime call of the same rank and correlation; without one, its own lane and begin (emulated
    devices, whose ranges are drawn there). Host work: its own event, else its measured begin on its lane. Either way,
    what a thread did for an entry of a task queue comes from where that was put in.
    """
    lane, time_ns = _own(graph, trace)
    launched = np.flatnonzero(np.isin(graph.kind, DEVICE_OPS) & (graph.event >= 0))
    call = _launches(trace, graph.event[launched])
    found = call >= 0
    lane[launched[found]] = trace.lane[call[found]]
    time_ns[launched[found]] = trace.start_ns[call[found]]
    _before_queue(trace, lane, time_ns)
    return Origins(lane, time_ns, graph.rank, np.isin(graph.kind, DEVICE_OPS))


def _own(graph: Graph, trace: Trace) -> tuple[Int32, Int64]:
    """Each op's own lane and begin, in the numbering and on the time axis of the trace."""
    index = {lane: i for i, lane in enumerate(trace.lanes)}
    to_trace = np.array([index.get(lane, MISSING) for lane in graph.lanes], dtype=np.int32)
    lane = to_trace[graph.lane] if len(to_trace) else np.full(len(graph), MISSING, np.int32)
    time_ns = np.where(graph.measured_start_ns >= 0, graph.measured_start_ns + _axis_offset(graph, trace), MISSING)
    real = graph.event >= 0
    lane[real] = trace.lane[graph.event[real]]
    time_ns[real] = trace.start_ns[graph.event[real]]
    return lane, time_ns


def _before_queue(trace: Trace, lane: Int32, time_ns: Int64) -> None:
    """Move origins on threads that take entries of a task queue to the put of the entry last taken."""
    for rank in trace.ranks:
        queue = task_queue(trace, rank)
        both = queue.take >= 0
        for taker in queue.takers:
            own = both & (np.where(both, trace.lane[queue.take], MISSING) == taker)
            order = np.argsort(trace.start_ns[queue.take[own]], kind="stable")
            put, taken_ns = queue.put[own][order], trace.start_ns[queue.take[own]][order]
            here = np.flatnonzero(lane == taker)
            at = np.searchsorted(taken_ns, time_ns[here], side="right") - 1
            here, at = here[at >= 0], at[at >= 0]
            lane[here], time_ns[here] = trace.lane[put[at]], trace.start_ns[put[at]]


def _axis_offset(graph: Graph, trace: Trace) -> Int64:
    """Trace time minus graph time of every op, per rank: the median over ops that have both (clocks may be aligned)."""
    both = np.flatnonzero((graph.event >= 0) & (graph.measured_start_ns >= 0))
    difference = trace.start_ns[graph.event[both]] - graph.measured_start_ns[both]
    offset = np.zeros(len(graph), dtype=np.int64)
    for rank in np.unique(graph.rank[both]):
        offset[graph.rank == rank] = int(np.median(difference[graph.rank[both] == rank]))
    return offset


def _launches(trace: Trace, device_events: Int64) -> Int64:
    """Runtime call that launched each device event, -1 where none is recorded."""
    calls = np.flatnonzero((trace.kind == EventKind.RUNTIME) & (trace.correlation > 0))
    if not len(calls) or not len(device_events):
        return np.full(len(device_events), MISSING, dtype=np.int64)
    order = calls[np.lexsort((trace.start_ns[calls], trace.correlation[calls], trace.rank[calls]))]
    ids = np.concatenate([trace.correlation[order], trace.correlation[device_events]])
    different, number = np.unique(ids, return_inverse=True)  # ids themselves may be as large as they like
    keys, wanted = np.split(number, [len(order)])
    keys = trace.rank[order].astype(np.int64) * len(different) + keys
    wanted = trace.rank[device_events].astype(np.int64) * len(different) + wanted
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = (keys[at] == wanted) & (trace.correlation[device_events] > 0)
    return np.where(hit, order[at], MISSING)
