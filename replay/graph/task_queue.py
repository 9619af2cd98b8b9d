"""Task queue of torch_npu (R2, R4): one host thread puts launches into a bounded queue, another takes them out.

Both ends are recorded: an ``Enqueue`` row and the ``Dequeue`` row of equal number. A taker that was idle when its next
entry was put had been waiting for it. A put far longer than usual, with about as many entries in the queue as at other
such puts, found the queue full: it waited for the take that made room, which is that many entries before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_US
from replay.graph.handover import Handover
from replay.graph.selection import RankStep
from replay.trace import EventKind, Trace

PUT, TAKE = "Enqueue", "Dequeue"
_SMALLEST = 64  # fewer entries are no full queue: torch_npu's holds 4096 (kQueueCapacity)
_FAR_ABOVE = 4  # times the typical put
_AT_LEAST_NS = 10 * NS_PER_US
_AGREE = 0.05  # relative spread of the depths seen at blocked puts


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """Rows of one rank's queue in order of the puts; ``take`` is -1 where it was not recorded."""

    put: Int64
    take: Int64
    takers: frozenset[int]  # threads (lanes) that take entries


def task_queue(trace: Trace, rank: int) -> TaskQueue:
    """Join of puts and takes of one rank by their number."""
    words = np.array([*(name.split("@")[0] for name in trace.names), ""])
    is_end = np.isin(words, (PUT, TAKE))[trace.name]
    rows = np.flatnonzero(is_end & (trace.rank == rank) & (trace.kind == EventKind.RUNTIME) & (trace.external_id >= 0))
    is_put = words[trace.name[rows]] == PUT
    puts, takes = rows[is_put], rows[~is_put]
    taken = dict(zip(trace.external_id[takes].tolist(), takes.tolist(), strict=True))
    take = np.array([taken.get(number, -1) for number in trace.external_id[puts].tolist()], np.int64)
    return TaskQueue(puts, take, frozenset(trace.lane[takes].tolist()))


def queue_handovers(trace: Trace, queue: TaskQueue, step: RankStep) -> tuple[Handover, ...]:
    """Waits at both ends of the queue within the step, as hand-overs between the two threads."""
    found = _empty(trace, queue, step)
    lane = np.where(queue.take >= 0, trace.lane[queue.take], -1)
    for taker in sorted(queue.takers):
        found += _full(trace, queue.put[lane == taker], queue.take[lane == taker], step)
    return tuple(found)


def _empty(trace: Trace, queue: TaskQueue, step: RankStep) -> list[Handover]:
    """A taker idle since its last row was released by the end of the put of its next entry."""
    found = []
    busy = {lane: _ends_on(trace, lane) for lane in queue.takers}
    taken = queue.take >= 0
    for put, take in zip(queue.put[taken].tolist(), queue.take[taken].tolist(), strict=True):
        start, put_start = int(trace.start_ns[take]), int(trace.start_ns[put])
        if put_start < step.begin_ns or start >= step.host_end_ns:
            continue
        lane = int(trace.lane[take])
        before = int(np.searchsorted(busy[lane], start, side="right")) - 1
        since = max(int(busy[lane][before]) if before >= 0 else 0, step.begin_ns)
        released = trace.end_of(put) if trace.end_of(put) <= start else put_start
        if since < released <= start:
            found.append(Handover(lane, since, start, int(trace.lane[put]), released))
    return found


def _ends_on(trace: Trace, lane: int) -> Int64:
    rows = (trace.lane == lane) & (trace.kind == EventKind.RUNTIME)
    return np.sort(trace.end_ns[rows])


def _full(trace: Trace, put: Int64, take: Int64, step: RankStep) -> list[Handover]:
    """A put into one taker's full queue waits, over its own time, for the take that made room."""
    if not len(put):
        return []
    duration = trace.dur_ns[put]
    usual = float(np.median(duration))
    blocked = np.flatnonzero(duration > max(_FAR_ABOVE * usual, usual + _AT_LEAST_NS))
    held = blocked + 1 - np.searchsorted(np.sort(trace.end_ns[take]), trace.end_ns[put[blocked]], side="right")
    deep = held[held >= _SMALLEST]
    if len(deep) < 3:
        return []
    depth = float(np.median(deep))
    found = []
    for at, entries in zip(blocked.tolist(), held.tolist(), strict=True):
        if at < entries or abs(entries - depth) > _AGREE * depth:
            continue
        blocked_put, source = int(put[at]), int(take[at - entries])
        begin, released, end = int(trace.start_ns[blocked_put]), trace.end_of(source), trace.end_of(blocked_put)
        if step.begin_ns <= begin < step.host_end_ns and begin < released <= end:
            found.append(Handover(int(trace.lane[blocked_put]), begin, end, int(trace.lane[source]), released))
    return found
