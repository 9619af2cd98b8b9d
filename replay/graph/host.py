"""Host order with waiting taken out (R2): each thread of a rank as a chain of ops.

A thread's time within the step is tiled by its calls, by the host work between them, and by waits. Calls keep their own
cost, host work keeps its measured duration, waits vanish: what follows a wait gets an edge from what was waited for.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from replay.core.columns import Int64
from replay.graph.calls import HANDING_OVER, CallKind
from replay.graph.handover import Activity, Handover, find_handovers
from replay.graph.launch_join import Launches
from replay.graph.selection import RankStep
from replay.graph.silent_waits import silent_waits
from replay.graph.spins import Spin, find_spins
from replay.graph.task_queue import queue_handovers, task_queue
from replay.graph.transfer_waits import TransferWait, TransferWaits, transfer_waits
from replay.graph.types import OpKind
from replay.trace import EventKind, Trace

_HOST, _CALL, _COMPUTE, _CPU_OP = OpKind.HOST, OpKind.CALL, OpKind.COMPUTE, EventKind.CPU_OP  # looked up per op
Wait = Handover | Spin | TransferWait
_HOST_KINDS = (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.RUNTIME)


@dataclass(slots=True)
class HostOps:
    """Ops of the host threads of one rank, in order per thread; ``previous`` is the op before on the same thread."""

    duration_ns: list[int] = field(default_factory=list)
    start_ns: list[int] = field(default_factory=list)
    end_ns: list[int] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    kind: list[OpKind] = field(default_factory=list)
    event: list[int] = field(default_factory=list)
    previous: list[int] = field(default_factory=list)
    call_op: dict[int, int] = field(default_factory=dict)  # call event → its op
    after_call: dict[int, int] = field(default_factory=dict)  # call event → next op of the thread
    handovers: list[tuple[int, int]] = field(default_factory=list)  # (releasing op, released op)
    queued: list[tuple[int, int]] = field(default_factory=list)  # the same at the ends of a recorded task queue
    spins: list[tuple[Spin, int]] = field(default_factory=list)  # (what was polled for, released op)
    transfers: list[tuple[TransferWait, int]] = field(default_factory=list)  # (what was waited for, released op)
    in_calls: list[tuple[int, int]] = field(default_factory=list)  # (call, transfer that ended before it returned)

    def add(self, lane: int, kind: OpKind, start: int, end: int, duration: int, event: int, previous: int) -> int:
        """Append an op and return its index."""
        self.duration_ns.append(duration)
        self.start_ns.append(start)
        self.end_ns.append(end)
        self.lane.append(lane)
        self.kind.append(kind)
        self.event.append(event)
        self.previous.append(previous)
        return len(self.lane) - 1


@dataclass(frozen=True, slots=True)
class CallTiming:
    """Own cost of a call, whether it waits before (launch queue) or after (sync) paying it, and work after the wait."""

    cost_ns: int
    waits_first: bool
    rest_ns: int = 0


def host_ops(trace: Trace, launches: Launches, step: RankStep, timing: dict[int, CallTiming]) -> HostOps:
    """Ops of all threads that act in the step; ``timing`` holds the calls whose measured duration contains a wait."""
    threads = _activities(trace, launches, step)
    queue = task_queue(trace, step.rank)
    queued = queue_handovers(trace, queue, step)
    handovers = tuple(h for h in find_handovers(threads) if h.waiter not in queue.takers)
    spins = find_spins(trace, launches, step, threads)
    ops = HostOps()
    acts = _acts(trace, step, threads)
    released = _released(trace, launches, step, threads, acts)
    known: dict[int, list[Wait]] = {t.lane: [*(s for s in spins if s.waiter == t.lane)] for t in threads}
    for lane, found in released.items():
        known[lane] += found.silences
    for lane, silences in silent_waits(trace, launches, step, threads, queue).items():
        known[lane] += silences
    handovers = (*(h for h in handovers if not any(_covers(wait, h) for wait in known[h.waiter])), *queued)
    waits_of: dict[int, list[Wait]] = defaultdict(list)
    cuts_of: dict[int, set[int]] = defaultdict(set)
    for handover in handovers:
        waits_of[handover.waiter].append(handover)
        cuts_of[handover.source].add(handover.released_ns)
    ends: dict[tuple[int, int], int] = {}  # (lane, time) → op that ends there
    pending: list[tuple[Handover, int]] = []
    for thread in threads:
        ops.in_calls += released[thread.lane].in_calls
        calls = acts[thread.lane]
        waits = [wait for wait in waits_of[thread.lane] + known[thread.lane] if not _inside(trace, calls, wait)]
        _Tiling(ops, thread, timing, trace).run(calls, waits, sorted(cuts_of[thread.lane]), ends, pending)
    recorded = frozenset(queued)
    for handover, op in pending:
        source = ends.get((handover.source, handover.released_ns))
        if source is not None:
            (ops.queued if handover in recorded else ops.handovers).append((source, op))
    return ops


def _acts(trace: Trace, step: RankStep, threads: tuple[Activity, ...]) -> dict[int, Int64]:
    """Calls and compute of every thread, in order, without those inside others."""
    acts = np.sort(np.concatenate((step.calls, step.host_compute)))
    return {thread.lane: _top_level(trace, acts[trace.lane[acts] == thread.lane]) for thread in threads}


def _released(
    trace: Trace, launches: Launches, step: RankStep, threads: tuple[Activity, ...], acts: dict[int, Int64]
) -> dict[int, TransferWaits]:
    """Waits of every thread for the transfers that it handed over to other threads of the host."""
    call = launches.call[step.device]
    by_host = np.isin(launches.call_kind[call], HANDING_OVER) & (call >= 0)
    transfers, lane = step.device[by_host], trace.lane[call[by_host]]
    return {t.lane: transfer_waits(trace, launches, t, acts[t.lane], transfers[lane == t.lane]) for t in threads}


def _covers(wait: Wait, handover: Handover) -> bool:
    """True where a silence of its thread that is explained already looks like a hand-over too."""
    return wait.from_ns < handover.until_ns and handover.from_ns < wait.until_ns


def _activities(trace: Trace, launches: Launches, step: RankStep) -> tuple[Activity, ...]:
    host = (trace.rank == step.rank) & np.isin(trace.kind, _HOST_KINDS)
    host &= (trace.start_ns < step.host_end_ns) & (trace.end_ns > step.begin_ns)
    rows = np.flatnonzero(host)
    acting = (trace.kind[rows] != EventKind.RUNTIME) | (launches.call_kind[rows] != CallKind.NONE)
    threads = []
    for lane in np.unique(trace.lane[rows[acting]]):
        mine = rows[trace.lane[rows] == lane]
        start = np.maximum(trace.start_ns[mine], step.begin_ns)
        end = np.minimum(trace.end_ns[mine], step.host_end_ns)
        boundary = np.unique(np.concatenate(([step.begin_ns], start, end)))
        threads.append(Activity(int(lane), boundary, _busy_leaves(trace, mine, start, end, boundary)))
    return tuple(threads)


def _busy_leaves(trace: Trace, rows: Int64, start: Int64, end: Int64, boundary: Int64) -> Int64:
    """Starts of boundary intervals that are exactly an operator or a call without children."""
    working = trace.kind[rows] != EventKind.ANNOTATION
    at = np.searchsorted(boundary, start[working])
    leaf = np.searchsorted(boundary, end[working]) == at + 1
    return np.unique(start[working][leaf])


def _top_level(trace: Trace, calls: Int64) -> Int64:
    """Those that do not lie inside an earlier one of the same thread (driver calls under runtime calls)."""
    if not len(calls):
        return calls
    reach = np.maximum.accumulate(trace.end_ns[calls])
    keep = np.append(True, trace.start_ns[calls][1:] >= reach[:-1])
    return np.asarray(calls[keep])


def _inside(trace: Trace, calls: Int64, wait: Wait) -> bool:
    """True for silence within a call or collective: that time is the call's."""
    at = int(np.searchsorted(trace.start_ns[calls], wait.from_ns, side="right")) - 1
    return at >= 0 and trace.end_of(int(calls[at])) > wait.from_ns


class _Tiling:
    """Cuts one thread's time into ops; a helper object so that the walk below reads as the rule it is."""

    def __init__(self, ops: HostOps, thread: Activity, timing: dict[int, CallTiming], trace: Trace) -> None:
        self._ops, self._thread, self._timing, self._trace = ops, thread, timing, trace
        self._previous = -1
        self._now = int(thread.boundary_ns[0])
        self._waiting_call = -1  # the call whose successor has not been made yet

    def run(
        self,
        calls: Int64,
        waits: list[Wait],
        cuts: list[int],
        ends: dict[tuple[int, int], int],
        pending: list[tuple[Handover, int]],
    ) -> None:
        """Walk calls and waits in order of time; ``cuts`` are times at which another thread is released."""
        items: list[tuple[int, int, int | Wait]] = [
            (int(self._trace.start_ns[c]), self._trace.end_of(c), c) for c in map(int, calls)
        ]
        items += [(w.from_ns, w.until_ns, w) for w in waits]
        cut_at = 0
        for start, end, item in sorted(items, key=lambda i: (i[0], i[1])):
            while cut_at < len(cuts) and cuts[cut_at] <= start:
                self._hand_over(cuts[cut_at], ends)
                cut_at += 1
            self._host_until(start, ends)
            if isinstance(item, int):
                self._call(item, start, end)
            elif isinstance(item, Spin):
                self._ops.spins.append((item, self._emit(OpKind.HOST, end, end, 0, -1)))
            elif isinstance(item, TransferWait):
                woken = self._emit(OpKind.HOST, item.released_ns, end, end - item.released_ns, -1)
                self._ops.transfers.append((item, woken))
            else:
                woken = self._emit(OpKind.HOST, item.released_ns, end, end - item.released_ns, -1)
                pending.append((item, woken))
            self._now = end
            ends[self._thread.lane, end] = self._previous
        for cut in cuts[cut_at:]:
            self._hand_over(cut, ends)
        self._host_until(int(self._thread.boundary_ns[-1]), ends)

    def _hand_over(self, time_ns: int, ends: dict[tuple[int, int], int]) -> None:
        """Work until another thread is released: where that is at once after a call that blocks, its return."""
        self._host_until(time_ns, ends)
        if self._waiting_call in self._timing and time_ns == self._now:
            ends[self._thread.lane, time_ns] = self._emit(OpKind.HOST, time_ns, time_ns, 0, -1)

    def _host_until(self, time_ns: int, ends: dict[tuple[int, int], int]) -> None:
        if time_ns > self._now:
            self._emit(_HOST, self._now, time_ns, time_ns - self._now, -1)
            self._now = time_ns
        if self._previous >= 0:
            ends[self._thread.lane, time_ns] = self._previous

    def _call(self, call: int, start: int, end: int) -> None:
        timing = self._timing.get(call)
        cost = end - start if timing is None else min(timing.cost_ns, end - start)
        begin = end - cost if timing is not None and timing.waits_first else start
        kind = _COMPUTE if self._trace.kind[call] == _CPU_OP else _CALL
        op = self._emit(kind, begin, begin + cost, cost, call)
        self._ops.call_op[call] = op
        self._waiting_call = call
        if timing is not None and timing.rest_ns:
            self._emit(_HOST, end - timing.rest_ns, end, timing.rest_ns, -1)

    def _emit(self, kind: OpKind, start: int, end: int, duration: int, event: int) -> int:
        op = self._ops.add(self._thread.lane, kind, start, end, duration, event, self._previous)
        if self._waiting_call >= 0:
            self._ops.after_call[self._waiting_call] = op
            self._waiting_call = -1
        self._previous = op
        return op
