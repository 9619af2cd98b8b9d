"""A growing timeline whose rows come from a database: exact times, and processes numbered as msprof numbers them."""

from __future__ import annotations

from collections import Counter

import msgspec

from parsers._numbers import ns_text
from parsers.ascend.database import Value
from parsers.ascend.database_names import integer_of
from parsers.ascend.events import AscendArgs, AscendEvent, Timeline

CANN, HARDWARE, COMMUNICATION, OVERLAP = 7, 13, 15, 23
_TID_BITS, _PID_SHIFT, _KIND_SHIFT, _DEVICES = 32, 10, 5, 32
_FAR_DEVICE_SHIFT = 48  # devices beyond 31, which msprof's numbers have no place for
_NO_TIME = msgspec.Raw()
Place = tuple[int, int]  # process, thread


class Writer:
    """Rows by what they are; what has no usable time is found, and counted, where timelines are read."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.operators: Counter[Place] = Counter()  # framework rows of each thread
        self._pid = 0
        self._processes: dict[tuple[int, int], int] = {}

    def add(
        self, role: str, name: str, span: tuple[Value, Value], at: Place, args: AscendArgs, category: str | None = None
    ) -> AscendEvent:
        """One row over ``span``, its start and end in ns."""
        start, end = integer_of(span[0]), integer_of(span[1])
        begin = lasts = _NO_TIME
        if start is not None:
            begin = msgspec.Raw(b'"%b"' % ns_text(start))  # text: no float to be doubted
            lasts = _NO_TIME if end is None else msgspec.Raw(ns_text(end - start))
        event = AscendEvent(ph="X", cat=category, name=name, pid=at[0], tid=at[1], ts=begin, dur=lasts, args=args)
        self.timeline.rows[role].append(event)
        if role == "framework":
            self.operators[at] += 1
        return event

    def thread(self, global_tid: Value) -> Place:
        """Process and thread of a number that holds both; the first process met is that of the devices."""
        number = integer_of(global_tid) or 0
        pid, tid = number >> _TID_BITS, number & ((1 << _TID_BITS) - 1)
        self._pid = self._pid or pid
        return pid, tid

    def process(self, kind: int, device: int = 0, pid: int = 0) -> int:
        """Number of a process, which a label tells the device of."""
        owner = pid or self._pid
        number = owner << _PID_SHIFT | kind << _KIND_SHIFT | max(device, 0) % _DEVICES
        return number | (max(device, 0) // _DEVICES) << _FAR_DEVICE_SHIFT

    def device_process(self, kind: int, device: int) -> int:
        """Number of the one process that holds rows of this kind of a device."""
        key = kind, device
        if key not in self._processes:
            number = self.process(kind, device)
            self._processes[key] = number
            self.timeline.labels[str(number)] = f"NPU {device}" if device >= 0 else "NPU"
        return self._processes[key]
