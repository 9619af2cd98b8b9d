"""Waits for the device that no row shows (R2): host threads of ranks whose calls into the runtime were not recorded.

At level 0 torch_npu's profiler writes operators and the ends of its task queue, but no synchronisation. A thread that
waits is silent then, and goes on as the work that was launched last before its silence ends: so soon after it, for so
long a wait, that coincidence explains little. What is left of the silence afterwards is host work. Where all threads
are silent at last, the one that goes on first was waiting, whichever gave the work away: a main thread that waited,
then ran a backward pass, shows nothing in between, and it is the autograd thread that goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_US
from replay.graph.calls import CANN_LAYER, CallKind, call_kind
from replay.graph.handover import Activity
from replay.graph.host_compute import computes_on_host
from replay.graph.launch_join import Launches
from replay.graph.selection import RankStep
from replay.graph.syncs import CLOCK_TOLERANCE_NS
from replay.graph.task_queue import TaskQueue
from replay.graph.transfer_waits import TransferWait
from replay.trace import EventKind, Trace

_SHORTEST_NS = 500 * NS_PER_US  # pauses of Python between launches are shorter, and so are kernels of host-bound steps
_WAKE_NS = 50 * NS_PER_US
_COINCIDES = 20  # the silence goes on for no more than one over this of the wait, or for the waking up


def silent_waits(
    trace: Trace, launches: Launches, step: RankStep, threads: tuple[Activity, ...], queue: TaskQueue
) -> dict[int, list[TransferWait]]:
    """Waits of every launching thread of one rank; none where calls into the runtime were recorded."""
    if _records_runtime(trace, step.rank) or computes_on_host(trace, step.rank):
        return {}
    work = _Work(trace, launches, step, queue)
    return {thread.lane: list(work.waits(thread, threads)) for thread in threads if thread.lane in work.launching}


def _records_runtime(trace: Trace, rank: int) -> bool:
    """Whether the rank has calls of a runtime: by their layer or their API, which no operator's name looks like."""
    calls = (trace.kind == EventKind.RUNTIME) & (trace.rank == rank)
    named = [trace.names[code] for code in np.unique(trace.name[calls]).tolist()]
    return any(CANN_LAYER.match(name) or ("::" not in name and call_kind(name) != CallKind.NONE) for name in named)


def _last_act(thread: Activity, time_ns: int) -> int:
    """When a thread fell silent before a time; that time itself where it was busy."""
    at = int(np.searchsorted(thread.boundary_ns, time_ns, side="left")) - 1
    if at < 0:
        return time_ns
    begin = int(thread.boundary_ns[at])
    last = int(np.searchsorted(thread.busy_ns, begin, side="right")) - 1
    return time_ns if last >= 0 and int(thread.busy_ns[last]) == begin else begin


class _Work:
    """Device work of one rank's step by stream, with the time at which a thread gave it away."""

    def __init__(self, trace: Trace, launches: Launches, step: RankStep, queue: TaskQueue) -> None:
        self._trace = trace
        put_of = dict(zip(queue.take.tolist(), queue.put.tolist(), strict=True))
        known = step.device[launches.call[step.device] >= 0]
        given = np.array([put_of.get(call, call) for call in launches.call[known].tolist()], np.int64)
        self.launching = frozenset(trace.lane[given].tolist())
        self._streams: list[tuple[Int64, Int64]] = []
        for lane in np.unique(trace.lane[known]):
            mine = trace.lane[known] == lane
            order = np.argsort(trace.start_ns[known[mine]], kind="stable")
            self._streams.append((np.maximum.accumulate(trace.start_ns[given[mine]][order]), known[mine][order]))

    def waits(self, thread: Activity, threads: tuple[Activity, ...]) -> Iterator[TransferWait]:
        """Silences that end as the work does that was given away last before all threads were silent."""
        for begin, end in zip(*(bounds.tolist() for bounds in thread.gaps()), strict=True):
            silent = max([begin, *(_last_act(other, end) for other in threads if other is not thread)])
            last = [event for event in self._last_before(silent) if self._releases(event, silent, end)]
            if last:
                event = max(last, key=self._trace.end_of)
                yield TransferWait(thread.lane, begin, end, min(self._trace.end_of(event), end), (event,))

    def _last_before(self, time_ns: int) -> Iterator[int]:
        for given_ns, events in self._streams:
            at = int(np.searchsorted(given_ns, time_ns, side="right")) - 1
            if at >= 0:
                yield int(events[at])

    def _releases(self, event: int, begin: int, end: int) -> bool:
        over = self._trace.end_of(event)
        waited, rest = over - begin, end - over
        return waited >= _SHORTEST_NS and -CLOCK_TOLERANCE_NS <= rest <= max(_WAKE_NS, waited // _COINCIDES)
