"""Lanes of one Ascend timeline: host threads by number, device streams by device and number."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from parsers._numbers import Scalar, integer
from parsers.ascend.events import AscendEvent, Timeline
from replay.core.columns import Int64
from replay.trace import MISSING, Lane

_DEVICE_MASK = 31  # the last bits of a process id
_LABEL = re.compile(r"(?:^|\s)(\d{1,3})\s*$")  # "NPU 3"


class Lanes:
    """Gives every thread and stream met a code."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._codes: dict[tuple[bool, str], int] = {}
        self._lanes: list[Lane] = []

    @property
    def all(self) -> tuple[Lane, ...]:
        """Every lane; index = code."""
        return tuple(self._lanes)

    def threads(self, events: Sequence[AscendEvent]) -> Int64:
        """Lanes of host rows; all processes of one host share the numbers of its threads."""
        codes: dict[tuple[Scalar, Scalar], int] = {}
        for event in events:
            if (event.pid, event.tid) not in codes:
                codes[event.pid, event.tid] = self._thread(event)
        return np.array([codes[event.pid, event.tid] for event in events], np.int64)

    def streams(self, events: Sequence[AscendEvent], stream: Int64) -> Int64:
        """Lanes of device rows on their streams; what has no stream lies on its thread."""
        codes: dict[tuple[Scalar, Scalar, int], int] = {}
        keys = [(event.pid, event.tid, number) for event, number in zip(events, stream.tolist(), strict=True)]
        for key, event in zip(keys, events, strict=True):
            if key not in codes:
                codes[key] = self._stream(event, key[2])
        return np.array([codes[key] for key in keys], np.int64)

    def _thread(self, event: AscendEvent) -> int:
        tid = str(event.tid)
        label = (self._timeline.thread_of(event) or f"thread {tid}").replace("Thread ", "thread ", 1)
        return self._code((False, tid), Lane(MISSING, False, label, tid=tid))

    def _stream(self, event: AscendEvent, stream: int) -> int:
        device = device_number(self._timeline, str(event.pid))
        label = f"stream {stream}" if stream >= 0 else self._timeline.thread_of(event) or str(event.tid)
        lane = Lane(MISSING, True, label, device, stream, tid="" if stream >= 0 else label)
        return self._code((True, f"{device} {label}"), lane)

    def _code(self, key: tuple[bool, str], lane: Lane) -> int:
        if key not in self._codes:
            self._codes[key] = len(self._lanes)
            self._lanes.append(lane)
        return self._codes[key]


def device_number(timeline: Timeline, process: str) -> int:
    """Number of the device of a process, or of the first device: of a label "NPU 3", else the id's last bits."""
    if not process:
        rows = (event for role in ("device", "communication") for event in timeline.rows[role][:1])
        process = next((str(event.pid) for event in rows), "")
    labelled = _LABEL.search(timeline.labels.get(process, ""))
    if labelled:
        return int(labelled[1])
    number = integer(process)
    return number & _DEVICE_MASK if number >= 0 else MISSING
