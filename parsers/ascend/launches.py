"""Which host row launched which device task of an Ascend timeline.

Strongest first: the ``connection_id`` that both carry; the HostToDevice arrow; and where no CANN rows were recorded
(level 0) the torch_to_npu arrow from an operator: what it put on the task queue launched the work, else the operator
itself. The number written into both rows is the connection, or a free one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from parsers._numbers import integer
from parsers.ascend.events import AscendArgs, AscendEvent, Flow, Timeline, place
from parsers.ascend.timed import Timed
from replay.trace import MISSING

_NO_ARGS = AscendArgs()
_Place = tuple[str, str, str]


@dataclass(slots=True)
class Launching:
    """Correlations of device rows and of framework or CANN rows, by the identity of the row."""

    of: dict[int, int] = field(default_factory=dict)  # id(event) → correlation
    launching: set[int] = field(default_factory=set)  # id(event) of framework rows that launch work themselves
    inferred: Counter[str] = field(default_factory=Counter)


def connection(event: AscendEvent) -> int:
    """``connection_id`` of a row, -1 none."""
    return integer((event.args or _NO_ARGS).connection)


def queue_number(event: AscendEvent) -> int:
    """``correlation_id`` by which an Enqueue and its Dequeue find each other, -1 none."""
    return integer((event.args or _NO_ARGS).queued)


def find_launches(timeline: Timeline, cann: Timed, framework: Timed, device: Sequence[AscendEvent]) -> Launching:
    """Launches of all ``device`` rows."""
    found = Launching()
    known = {number: event for event in reversed(cann.events) if (number := connection(event)) > 0}
    free = max([0, *known, *(connection(event) for event in device)]) + 1
    rest = []
    for event in device:
        number = connection(event)
        if number in known:
            found.of[id(event)] = found.of[id(known[number])] = number
        else:
            rest.append(event)
    by_arrow = {place(event): event for event in reversed(cann.events)} if rest else {}
    rest, free = _by_arrows(found, timeline.flows["launch"], by_arrow, rest, free)
    operators = _Operators(framework) if rest else None
    if operators is not None:
        joined = dict(operators.launchers(timeline.flows["op"]))
        before = len(rest)
        rest, free = _by_arrows(found, timeline.flows["op"], joined, rest, free)
        found.launching = {id(event) for event in joined.values() if id(event) in found.of}
        found.inferred["device tasks joined to the operator they come from"] += before - len(rest)
    return found


def _by_arrows(
    found: Launching, flows: dict[str, Flow], launcher: dict[_Place, AscendEvent], device: list[AscendEvent], free: int
) -> tuple[list[AscendEvent], int]:
    """Join ``device`` rows at the head of an arrow to what stands at its tail; the rest, and the next free number."""
    tail = {target: flow.sources[0] for flow in flows.values() if flow.sources for target in flow.targets}
    rest = []
    for event in device:
        host = launcher.get(tail.get(place(event), ("", "", "")))
        if host is None:
            rest.append(event)
            continue
        if id(host) not in found.of:
            found.of[id(host)] = connection(host) if connection(host) > 0 else free
            free += 1
        found.of[id(event)] = found.of[id(host)]
    return rest, free


class _Operators:
    """Framework rows by place, and the queue entries that operators make."""

    def __init__(self, framework: Timed) -> None:
        self._at: dict[_Place, tuple[AscendEvent, int, int]] = {}
        self._puts: dict[str, list[tuple[int, int]]] = defaultdict(list)  # thread → (start, queue number)
        self._takes: dict[int, AscendEvent] = {}
        for event, start, dur in zip(
            framework.events, framework.start_ns.tolist(), framework.dur_ns.tolist(), strict=True
        ):
            if event.cat == "enqueue":
                self._puts[str(event.tid)].append((start, queue_number(event)))
            elif event.cat == "dequeue":
                self._takes[queue_number(event)] = event
            elif event.cat == "cpu_op":
                self._at.setdefault(place(event), (event, start, start + dur))
        for puts in self._puts.values():
            puts.sort()

    def launchers(self, flows: dict[str, Flow]) -> list[tuple[_Place, AscendEvent]]:
        """Tail of every arrow with the row that launches: the queue's taker, else the operator."""
        tails = [flow.sources[0] for flow in flows.values() if flow.sources]
        return [(tail, self._launcher(*self._at[tail])) for tail in tails if tail in self._at]

    def _launcher(self, operator: AscendEvent, start: int, end: int) -> AscendEvent:
        puts = self._puts.get(str(operator.tid), [])
        at = bisect_left(puts, (start, MISSING))
        inside = at < len(puts) and puts[at][0] < end
        return self._takes.get(puts[at][1], operator) if inside else operator
