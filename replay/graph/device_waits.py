"""Waits that streams carry out themselves (R4): EVENT_WAIT and EVENT_RECORD tasks among the work of Ascend's streams.

A stream runs its tasks in order, so a wait holds back everything after it, and a record fires when everything before it
is done. Which record a wait is for is not written down: it is the one of another stream that was asked for last by the
host before the wait was, if it fired by the end of the wait; else, without host calls, and for waits that lasted, the
one that fired last before the wait ended. Both are inferred.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_US
from replay.graph.launch_join import Launches
from replay.graph.selection import RankStep
from replay.trace import EventKind, Trace

_WAIT = re.compile(r"(?:EVENT|NOTIFY|CAPTURE|MEM)[_ ]WAIT", re.IGNORECASE)
_RECORD = re.compile(r"(?:EVENT|NOTIFY|CAPTURE)[_ ]RECORD", re.IGNORECASE)
_FOLLOWS_NS = 5 * NS_PER_US  # a wait that lasted ends this soon after its record fires
_LASTED_NS = NS_PER_US  # shorter waits found their event recorded


@dataclass(frozen=True, slots=True)
class DeviceWaits:
    """One row per (device event, device event that a stream's wait task holds back until the first is over)."""

    source: Int64
    target: Int64
    dropped: int  # waits for which no record fits


def wait_tasks(trace: Trace, rank: int) -> Int64:
    """Rows of wait tasks of one rank, in order of start."""
    return _tasks(trace, rank, _WAIT)


def device_waits(trace: Trace, launches: Launches, step: RankStep) -> DeviceWaits:
    """Waits of one rank's streams within the step."""
    waits, records = wait_tasks(trace, step.rank), _tasks(trace, step.rank, _RECORD)
    if not len(waits):
        return DeviceWaits(waits, waits, 0)
    order = _Streams(trace, step)
    asked = _asked(trace, launches, step.rank)
    rows: list[tuple[int, int]] = []
    dropped = 0
    for wait in waits.tolist():
        target = order.after(wait)
        if target is None:
            continue
        record = _record_of(trace, wait, records, asked)
        source = order.before(record) if record >= 0 else None
        if source is not None and trace.end_of(source) <= trace.start_ns[target] and source != target:
            rows.append((source, target))
        else:
            dropped += record < 0
    columns = np.array(rows, np.int64).reshape(-1, 2)
    return DeviceWaits(columns[:, 0], columns[:, 1], dropped)


def _record_of(trace: Trace, wait: int, records: Int64, asked: dict[int, int]) -> int:
    """Record task that ``wait`` is for, -1 none."""
    end = trace.end_of(wait)
    fired = records[(trace.lane[records] != trace.lane[wait]) & (trace.end_ns[records] <= end + _FOLLOWS_NS)]
    if not len(fired):
        return -1
    last = int(fired[np.argmax(trace.end_ns[fired])])
    if trace.dur_ns[wait] >= _LASTED_NS and end - trace.end_of(last) <= _FOLLOWS_NS:
        return last
    by_host = asked.get(int(trace.correlation[wait]))
    if by_host is not None:
        ordered = [(asked[number], row) for row in fired.tolist() if (number := int(trace.correlation[row])) in asked]
        before = [item for item in ordered if item[0] <= by_host]
        if before:
            return int(max(before)[1])
    return last


def _tasks(trace: Trace, rank: int, pattern: re.Pattern[str]) -> Int64:
    named = np.array([*(pattern.match(name) is not None for name in trace.names), False])[trace.name]
    return np.flatnonzero(named & (trace.rank == rank) & (trace.kind == EventKind.SYNC))


def _asked(trace: Trace, launches: Launches, rank: int) -> dict[int, int]:
    """Correlation of a host call → when it was made."""
    calls = np.flatnonzero((trace.rank == rank) & (trace.kind == EventKind.RUNTIME) & (trace.correlation > 0))
    return dict(zip(trace.correlation[calls[::-1]].tolist(), trace.start_ns[calls[::-1]].tolist(), strict=True))


class _Streams:
    """Work of the step by stream, in the order in which each stream ran it."""

    def __init__(self, trace: Trace, step: RankStep) -> None:
        self._trace = trace
        self._events: dict[int, Int64] = {}
        for lane in np.unique(trace.lane[step.device]).tolist():
            mine = step.device[trace.lane[step.device] == lane]
            self._events[lane] = mine[np.argsort(trace.start_ns[mine], kind="stable")]

    def before(self, task: int) -> int | None:
        """Last work of the stream of ``task`` that had begun when it began."""
        events = self._events.get(int(self._trace.lane[task]))
        if events is None:
            return None
        at = int(np.searchsorted(self._trace.start_ns[events], self._trace.start_ns[task], side="right")) - 1
        return int(events[at]) if at >= 0 else None

    def after(self, task: int) -> int | None:
        """First work of the stream of ``task`` that began no earlier than it."""
        events = self._events.get(int(self._trace.lane[task]))
        if events is None:
            return None
        at = int(np.searchsorted(self._trace.start_ns[events], self._trace.start_ns[task], side="left"))
        return int(events[at]) if at < len(events) else None
