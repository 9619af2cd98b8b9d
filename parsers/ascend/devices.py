"""Takes apart timelines of several devices, which msprof writes where one process drives them: a rank has one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from parsers._numbers import Scalar
from parsers.ascend.events import AscendEvent, Timeline, connection_of
from parsers.ascend.lanes import device_number

_OF_DEVICE = ("device", "communication", "overlap")
_OF_HOST = ("framework", "cann")


def by_device(timeline: Timeline) -> list[Timeline]:
    """A timeline for each device, in order of their numbers; the one given where there are no two.

    A call belongs to the device on which its work ran. Other rows of a host thread go where most of its calls do, and
    what belongs to no device to the first.
    """
    process: dict[Scalar, int] = {}
    for role in _OF_DEVICE:
        for event in timeline.rows[role]:
            if event.pid not in process:
                process[event.pid] = device_number(timeline, str(event.pid))
    numbers = sorted({process[event.pid] for role in _OF_DEVICE[:2] for event in timeline.rows[role]})
    if len(numbers) < 2:
        return [timeline]
    device_of = _Hosts(timeline, process, numbers[0]).device_of
    parts = {number: _part(timeline) for number in numbers}
    _deal(timeline, parts, _OF_DEVICE, lambda event: process[event.pid])
    _deal(timeline, parts, _OF_HOST, device_of)
    first = parts[numbers[0]]
    first.rows["other"], first.losses, first.skipped = timeline.rows["other"], timeline.losses, timeline.skipped
    first.cut_short, first.notes = timeline.cut_short, timeline.notes
    return [parts[number] for number in numbers]


def _part(timeline: Timeline) -> Timeline:
    return Timeline(threads=timeline.threads, labels=timeline.labels, arrows=timeline.arrows)


def _deal(
    timeline: Timeline, parts: dict[int, Timeline], roles: tuple[str, ...], device_of: Callable[[AscendEvent], int]
) -> None:
    for role in roles:
        for event in timeline.rows[role]:
            part = parts.get(device_of(event))
            if part is not None:
                part.rows[role].append(event)
            else:
                timeline.skipped["derived rows of devices without tasks"] += 1


class _Hosts:
    """Which device a host row belongs to."""

    def __init__(self, timeline: Timeline, process: dict[Scalar, int], first: int) -> None:
        self._first = first
        self._of_connection: dict[int, int] = {}
        for role in _OF_DEVICE[:2]:
            for event in timeline.rows[role]:
                if (number := connection_of(event)) > 0:
                    self._of_connection.setdefault(number, process[event.pid])
        votes: dict[Scalar, Counter[int]] = defaultdict(Counter)
        for event in timeline.rows["cann"]:
            if (device := self._of_connection.get(connection_of(event))) is not None:
                votes[event.tid][device] += 1
        heads = {end.id: process[end.pid] for end in timeline.arrows["op"] if end.ph != "s" and end.pid in process}
        for end in timeline.arrows["op"]:
            if end.ph == "s" and end.id in heads:
                votes[end.tid][heads[end.id]] += 1
        self._of_thread = {
            thread: min(count, key=lambda device: (-count[device], device)) for thread, count in votes.items()
        }

    def device_of(self, event: AscendEvent) -> int:
        """Device of one row."""
        device = self._of_connection.get(connection_of(event), -1)
        return device if device >= 0 else self._of_thread.get(event.tid, self._first)
