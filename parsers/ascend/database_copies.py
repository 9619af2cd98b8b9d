"""What carries out the copies of a sqlite export: a timeline names the engine, an export only the direction, if any.

Copies over the host's bus may be staged, so the two kinds must be told apart. Exports before MEMCPY_INFO hold no
direction either; torch_npu's task queue then has it in its name for the call ("acl_memcpy_host_to_device").
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict

from parsers._numbers import Scalar, us_to_ns
from parsers.ascend.events import AscendEvent, Timeline, connection_of

COPY_TASK = "MEMCPY_ASYNC"
_BY_BUS, _ON_DEVICE = "PCIE_DMA_SQE", "SDMA_SQE"
_QUEUED_COPY = re.compile(r"memcpy_(host|device)_to_(host|device)", re.IGNORECASE)


def engine_of(direction: str) -> str:
    """The engine of a copy "host to device", or of another direction."""
    return _BY_BUS if "host" in direction and "device" in direction else _ON_DEVICE


def tell_engines(timeline: Timeline) -> None:
    """Name the engine of copies whose task type is still the bare one, where the task queue tells the direction."""
    bare = [event for event in timeline.rows["device"] if event.args and event.args.task_type == COPY_TASK]
    queued = _Queue(timeline) if bare else None
    if queued is None or queued.is_empty:
        return
    call_of = {connection_of(event): event for event in reversed(timeline.rows["cann"])}
    for event in bare:
        call = call_of.get(connection_of(event))
        direction = queued.direction(call) if call is not None else ""
        if direction and event.args is not None:
            event.args.task_type = engine_of(direction)


class _Queue:
    """The copies that the task queue took out, by thread."""

    def __init__(self, timeline: Timeline) -> None:
        self._of_thread: dict[Scalar, list[tuple[int, int, str]]] = defaultdict(list)
        for event in timeline.rows["framework"]:
            copy = _QUEUED_COPY.search(str(event.name)) if event.cat == "dequeue" else None
            if copy is not None:
                start, dur = _ns(event)
                self._of_thread[event.tid].append((start, start + dur, f"{copy[1]} to {copy[2]}".lower()))
        for spans in self._of_thread.values():
            spans.sort()

    @property
    def is_empty(self) -> bool:
        """Whether it took out no copies."""
        return not self._of_thread

    def direction(self, call: AscendEvent) -> str:
        """Direction of the copy inside of which a call was made, empty where it was inside of none."""
        start, _ = _ns(call)
        spans = self._of_thread.get(call.tid, [])
        at = bisect_right(spans, start, key=lambda span: span[0]) - 1
        return spans[at][2] if at >= 0 and start <= spans[at][1] else ""


def _ns(event: AscendEvent) -> tuple[int, int]:
    (start, dur), _ = us_to_ns([event.ts, event.dur])
    return int(start), int(dur)
