"""Rows of a timeline with exact times: those without a time and a duration are left out and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from parsers._numbers import us_to_ns
from parsers.ascend.events import AscendEvent
from replay.core.columns import Int64


@dataclass(frozen=True, slots=True)
class Timed:
    """Events and their times, ns as the file counts them; all of one length."""

    events: list[AscendEvent]
    start_ns: Int64
    dur_ns: Int64

    def __len__(self) -> int:
        return len(self.events)


def timed(events: Sequence[AscendEvent], dropped: Counter[str]) -> Timed:
    """The events whose times can be read; 17 digits stay exact."""
    start, start_ok = us_to_ns([event.ts for event in events])
    dur, dur_ok = us_to_ns([event.dur for event in events])
    for reason, bad in (("no usable timestamp", ~start_ok), ("no usable duration", start_ok & ~dur_ok)):
        if bad.any():
            dropped[reason] += int(bad.sum())
    usable = start_ok & dur_ok
    return Timed(list(compress(events, usable.tolist())), start[usable], dur[usable])
