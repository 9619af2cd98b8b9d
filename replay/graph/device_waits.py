"""Waits that streams carry out themselves (R4): EVENT_WAIT and EVENT_RECORD tasks among the work of Ascend's streams.

A stream runs its tasks in order, so a wait holds back everything after it, and a record fires when everything before it
is done. Which record a wait is for is not written down: it is the one of another stream that was asked for last by the
host before the wait was, if it fired by the end of the wait; else, without host calls, and for waits that lasted, the
one that fired last before the wait ended. Both are inferred. A record also stands for what its stream itself had waited
for since its last work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from parsers.ascend.tasks import is_record, is_wait
from replay.core.columns import Int32, Int64
from replay.core.units import NS_PER_US
from replay.graph.selection import RankStep
from replay.trace import EventKind, Trace

_FOLLOWS_NS = 5 * NS_PER_US  # a wait that lasted ends this soon after its record fires
_CARRIES_NS = 20 * NS_PER_US  # a record fires this soon after the work before it, its own wake-up included
_LASTED_NS = NS_PER_US  # shorter waits found their event recorded
_NEVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class DeviceWaits:
    """One row per (device event, device event that a stream's wait task holds back until the first is over)."""

    source: Int64
    target: Int64
    correlations: frozenset[int]  # of all wait tasks
    dropped: int  # waits for which no record fits


def device_waits(trace: Trace, step: RankStep) -> DeviceWaits:
    """Waits of one rank's streams within the step."""
    waits = _tasks(trace, step.rank, is_wait)
    if not len(waits):
        return DeviceWaits(waits, waits, frozenset(), 0)
    asked = _asked(trace, step.rank)
    records = _Records.of(trace, _tasks(trace, step.rank, is_record), asked)
    order = _Streams(trace, step, records)
    rows: list[tuple[int, int]] = []
    dropped = 0
    for wait in waits[np.argsort(trace.end_ns[waits], kind="stable")].tolist():
        record = records.of_wait(trace, wait, asked.get(int(trace.correlation[wait]), -1))
        sources = order.before(record) if record >= 0 else []
        order.wait(wait, sources)
        target = order.after(wait)
        if target is not None:
            dropped += record < 0
            begin = int(trace.start_ns[target])
            rows += [(source, target) for source in sources if trace.end_of(source) <= begin and source != target]
    columns = np.array(rows, np.int64).reshape(-1, 2)
    return DeviceWaits(columns[:, 0], columns[:, 1], frozenset(trace.correlation[waits].tolist()), dropped)


@dataclass(frozen=True, slots=True)
class _Records:
    """Record tasks of one rank, in order of start."""

    task: Int64
    lane: Int32
    end_ns: Int64
    asked_ns: Int64  # when the host asked for them

    @classmethod
    def of(cls, trace: Trace, tasks: Int64, asked: dict[int, int]) -> _Records:
        """The records ``tasks``; those that no call asked for were asked for after every wait."""
        asked_ns = [asked.get(number, _NEVER_NS) for number in trace.correlation[tasks].tolist()]
        return cls(tasks, trace.lane[tasks], trace.end_ns[tasks], np.array(asked_ns, np.int64))

    def of_wait(self, trace: Trace, wait: int, asked_ns: int) -> int:
        """Record task that ``wait``, asked for at ``asked_ns`` (-1 unknown), is for; -1 none."""
        end = trace.end_of(wait)
        fired = np.flatnonzero((self.lane != trace.lane[wait]) & (self.end_ns <= end + _FOLLOWS_NS))
        if not len(fired):
            return -1
        last = fired[np.argmax(self.end_ns[fired])]
        if trace.dur_ns[wait] < _LASTED_NS or end - self.end_ns[last] > _FOLLOWS_NS:
            before = fired[self.asked_ns[fired] <= asked_ns][::-1]
            last = before[np.argmax(self.asked_ns[before])] if len(before) else last
        return int(self.task[last])


def _tasks(trace: Trace, rank: int, accept: Callable[[str], bool]) -> Int64:
    named = np.array([*map(accept, trace.names), False])[trace.name]
    return np.flatnonzero(named & (trace.rank == rank) & (trace.kind == EventKind.SYNC))


def _asked(trace: Trace, rank: int) -> dict[int, int]:
    """Correlation of a host call → when it was made."""
    calls = np.flatnonzero((trace.rank == rank) & (trace.kind == EventKind.RUNTIME) & (trace.correlation > 0))
    return dict(zip(trace.correlation[calls[::-1]].tolist(), trace.start_ns[calls[::-1]].tolist(), strict=True))


class _Streams:
    """Work of the step by stream, in the order in which each stream ran it, and what streams waited for so far."""

    def __init__(self, trace: Trace, step: RankStep, records: _Records) -> None:
        self._trace = trace
        self._events: dict[int, Int64] = {}
        self._waited: dict[int, list[tuple[int, list[int]]]] = defaultdict(list)  # lane → (start of wait, its sources)
        for lane in np.unique(trace.lane[step.device]).tolist():
            mine = step.device[trace.lane[step.device] == lane]
            self._events[lane] = mine[np.argsort(trace.start_ns[mine], kind="stable")]
        for lane in [lane for lane in self._events if trace.lanes[lane].stream < 0]:
            carrying = self._carrying(lane, records)
            if carrying is not None:
                self._events[carrying] = self._events[lane]

    def _carrying(self, lane: int, records: _Records) -> int | None:
        """The stream, without work of its own, that fires a record as most work of ``lane`` ends.

        Collectives of which no sub-tasks were recorded bear no stream.
        """
        ends = self._trace.end_ns[self._events[lane]]
        counts = {}
        for stream in set(records.lane.tolist()) - set(self._events):
            fired = np.append(np.sort(records.end_ns[records.lane == stream]), _NEVER_NS)
            counts[stream] = int((fired[np.searchsorted(fired, ends)] - ends <= _CARRIES_NS).sum())
        best = max(counts, key=lambda stream: counts[stream], default=None)
        return best if best is not None and 2 * counts[best] > len(ends) else None

    def wait(self, task: int, sources: list[int]) -> None:
        """Note what the wait ``task`` is for; waits come in order of their ends."""
        self._waited[int(self._trace.lane[task])].append((int(self._trace.start_ns[task]), sources))

    def before(self, task: int) -> list[int]:
        """Last work of the stream of ``task`` that began no later, and what the stream has waited for since then."""
        lane, start = int(self._trace.lane[task]), int(self._trace.start_ns[task])
        events = self._events.get(lane, np.zeros(0, np.int64))
        at = int(np.searchsorted(self._trace.start_ns[events], start, side="right")) - 1
        last = [int(events[at])] if at >= 0 else []
        since = int(self._trace.start_ns[last[0]]) if last else -1
        waited = takewhile(lambda entry: entry[0] > since, reversed(self._waited[lane]))
        inherited = [source for begin, sources in waited if begin <= start for source in sources]
        return list(dict.fromkeys([*last, *inherited]))

    def after(self, task: int) -> int | None:
        """First work of the stream of ``task`` that began no earlier than it."""
        events = self._events.get(int(self._trace.lane[task]))
        if events is None:
            return None
        at = int(np.searchsorted(self._trace.start_ns[events], self._trace.start_ns[task], side="left"))
        return int(events[at]) if at < len(events) else None
