"""Which host row launched which device task of an Ascend timeline.

Strongest first: in graph mode the call that executed the model of a task; the ``connection_id`` that both carry; the
HostToDevice arrow; and where no CANN rows were recorded (level 0) the torch_to_npu arrow from an operator: what it put
on the task queue launched the work, else the operator itself. The number written into both rows is the connection, or a
free one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from parsers._nesting import innermost
from parsers._numbers import Scalar, integers
from parsers.ascend.events import AscendEvent, Place, Timeline, place
from parsers.ascend.executions import executed
from parsers.ascend.timed import Timed
from replay.core.columns import Bool, Int64

_DAMAGED = 1 << 62  # no profiler counts so far
_QUEUED = attrgetter("queued")
_PUT, _TAKE, _FUNCTION = "enqueue", "dequeue", "python_function"


@dataclass(slots=True)
class Launching:
    """Correlation of every row, by which a launch and what it launched find each other; -1 none."""

    cann: Int64
    framework: Int64
    device: Int64
    launches: Bool  # framework rows that launch work themselves
    inferred: Counter[str] = field(default_factory=Counter)


def queue_numbers(rows: Timed) -> Int64:
    """``correlation_id`` by which an Enqueue and its Dequeue find each other, -1 none."""
    return integers(list(map(_QUEUED, rows.args)))


def find_launches(timeline: Timeline, cann: Timed, framework: Timed, device: Timed) -> Launching:
    """Launches of all ``device`` rows."""
    numbers = cann.connection.copy(), framework.connection.copy(), device.connection.copy()
    found = Launching(*numbers, np.zeros(len(framework), np.bool_))
    known = (device.connection > 0) & np.isin(device.connection, cann.connection)
    executions = executed(cann, device)
    _join(found, found.cann, executions)
    found.inferred["device tasks joined to the call that executed their model"] += len(executions)
    rest = [row for row in np.flatnonzero(~known).tolist() if row not in executions]
    calls = _hosts(_tails(timeline.arrows["launch"], device, rest), cann, np.ones(len(cann), np.bool_))
    _join(found, found.cann, calls)
    rest = [row for row in rest if row not in calls]
    category = np.array([str(event.cat) for event in framework.events])
    operators = _hosts(_tails(timeline.arrows["op"], device, rest), framework, ~np.isin(category, (_PUT, _TAKE)))
    launchers = _Queue(framework, category).launchers(operators, device) if operators else {}
    _join(found, found.framework, launchers)
    found.launches[list(launchers.values())] = True
    found.inferred["device tasks joined to the operator they come from"] += len(launchers)
    return found


def _join(found: Launching, host: Int64, launcher: dict[int, int]) -> None:
    """Give each device row the number of its ``launcher`` among ``host``, which gets one that nobody has if need be."""
    taken = np.concatenate([found.device, found.cann, found.framework])
    free = 1 + int(taken[taken < _DAMAGED].max(initial=0))
    for row, call in launcher.items():
        if host[call] <= 0:
            host[call] = free
            free += 1
        found.device[row] = host[call]


def _tails(ends: Sequence[AscendEvent], device: Timed, rows: Sequence[int]) -> dict[int, Place]:
    """Those of the device ``rows`` at which an arrow ends → where it begins."""
    if not (ends and rows):
        return {}
    wanted = _Places(device, rows)
    heads: dict[Scalar, list[int]] = defaultdict(list)
    for end in ends:
        if end.ph != "s" and (at := wanted.at(end)):
            heads[end.id] += at
    begins = {end.id: place(end) for end in reversed(ends) if end.ph == "s" and end.id in heads}
    return {row: begins[number] for number, found in heads.items() if number in begins for row in found}


class _Places:
    """Rows by where they begin.

    Some versions of torch_npu write the times of their own rows and arrows as floats, of which a time since 1970 keeps
    a quarter of a microsecond, and leave CANN's as they are.
    """

    def __init__(self, rows: Timed, chosen: Sequence[int]) -> None:
        self._events = [(row, rows.events[row]) for row in chosen]
        self._exact: dict[Place, list[int]] = defaultdict(list)
        self._rounded: dict[tuple[Scalar, Scalar, float], list[int]] = defaultdict(list)
        for row, event in self._events:
            self._exact[place(event)].append(row)

    def at(self, end: AscendEvent) -> list[int]:
        """Rows at which an arrow ends."""
        process, thread, time = place(end)
        found = self._exact.get((process, thread, time), [])
        if found or not _is_float(end):
            return found
        if not self._rounded:
            for row, event in self._events:
                self._rounded[event.pid, event.tid, _number(place(event)[2])].append(row)
        return self._rounded.get((process, thread, _number(time)), [])


def _is_float(event: AscendEvent) -> bool:
    return not bytes(event.ts).startswith(b'"')


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _hosts(tails: dict[int, Place], rows: Timed, allowed: Bool) -> dict[int, int]:
    """Device row → the first host row, of those ``allowed``, that begins at the tail of its arrow."""
    if not tails:
        return {}
    wanted = set(tails.values())
    at: dict[Place, int] = {}
    for row in np.flatnonzero(allowed).tolist():
        here = place(rows.events[row])
        if here in wanted:
            at.setdefault(here, row)
    return {row: at[tail] for row, tail in tails.items() if tail in at}


class _Queue:
    """What operators put into the task queue, and the rows that take it out."""

    def __init__(self, framework: Timed, category: np.ndarray) -> None:
        numbers = queue_numbers(framework)
        threads = {tid: code for code, tid in enumerate({event.tid for event in framework.events})}
        lane = np.array([threads[event.tid] for event in framework.events], np.int64)
        takes = np.flatnonzero(category == _TAKE)
        taker = dict(zip(numbers[takes[::-1]].tolist(), takes[::-1].tolist(), strict=True))
        puts = np.flatnonzero(category == _PUT)
        puts = puts[np.argsort(framework.start_ns[puts], kind="stable")]
        ranges = np.flatnonzero(~np.isin(category, (_PUT, _TAKE, _FUNCTION)))
        within = innermost(lane, framework.start_ns, framework.dur_ns, ranges, puts)
        self._takes: dict[int, list[int]] = defaultdict(list)  # operator → takers of what it put itself, in order
        for put, operator in zip(puts.tolist(), within.tolist(), strict=True):
            if operator >= 0 and int(numbers[put]) in taker:
                self._takes[operator].append(taker[int(numbers[put])])

    def launchers(self, operators: dict[int, int], device: Timed) -> dict[int, int]:
        """Device row → the queue's taker, else the operator.

        An operator that put as much into the queue as it launched put one for each, in order; else the first take
        stands for all.
        """
        launched: dict[int, list[int]] = defaultdict(list)
        for row, operator in operators.items():
            launched[operator].append(row)
        found: dict[int, int] = {}
        for operator, rows in launched.items():
            takes = self._takes.get(operator) or [operator]
            rows.sort(key=lambda row: int(device.start_ns[row]))
            found |= dict(zip(rows, takes if len(takes) == len(rows) else takes[:1] * len(rows), strict=True))
        return found
