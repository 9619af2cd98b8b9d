"""Rows of a timeline with exact times: those without a time and a duration are left out and counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter

import numpy as np

from parsers._numbers import integers, us_to_ns
from parsers.ascend.events import AscendArgs, AscendEvent
from replay.core.columns import Int64

_EXACT_NS = 1000 * 2**50  # a double of more microseconds keeps no more than a quarter of one
_FLOAT = re.compile(rb"\d+(?:\.\d?)?")  # digits beyond are not of a double
_NO_ARGS = AscendArgs()
_CONNECTION = attrgetter("connection")


@dataclass(frozen=True, slots=True)
class Timed:
    """Events with what every reader of them asks for; all of one length. Times are ns as the file counts them."""

    events: list[AscendEvent]
    args: list[AscendArgs]
    start_ns: Int64
    dur_ns: Int64
    connection: Int64  # ``connection_id``, -1 none

    def __len__(self) -> int:
        return len(self.events)

    def end_of(self, row: int) -> int:
        """End of one row, ns."""
        return int(self.start_ns[row]) + int(self.dur_ns[row])


def timed(events: Sequence[AscendEvent], dropped: Counter[str]) -> Timed:
    """The events whose times can be read; 17 digits stay exact where they are written."""
    start, start_ok = us_to_ns([event.ts for event in events])
    dur, dur_ok = us_to_ns([event.dur for event in events])
    for reason, bad in (("no usable timestamp", ~start_ok), ("no usable duration", start_ok & ~dur_ok)):
        if bad.any():
            dropped[reason] += int(bad.sum())
    usable = start_ok & dur_ok
    kept = list(compress(events, usable.tolist()))
    args = [event.args or _NO_ARGS for event in kept]
    return Timed(kept, args, start[usable], dur[usable], integers(list(map(_CONNECTION, args))))


def chosen(rows: Timed, at: Sequence[int] | Int64) -> Timed:
    """Some rows, in the order given."""
    index = np.asarray(at, np.int64)
    return Timed(
        [rows.events[row] for row in index.tolist()],
        [rows.args[row] for row in index.tolist()],
        rows.start_ns[index],
        rows.dur_ns[index],
        rows.connection[index],
    )


def joined(first: Timed, second: Timed) -> Timed:
    """The rows of both."""
    return Timed(
        first.events + second.events,
        first.args + second.args,
        np.concatenate([first.start_ns, second.start_ns]),
        np.concatenate([first.dur_ns, second.dur_ns]),
        np.concatenate([first.connection, second.connection]),
    )


def written_as_floats(rows: Timed) -> int:
    """How many rows have times since 1970 that were written as floats, which keep a quarter of a microsecond."""
    if not rows.events or bytes(rows.events[0].ts).startswith(b'"'):
        return 0
    late = (rows.start_ns > _EXACT_NS).tolist()
    return sum(old and bool(_FLOAT.fullmatch(bytes(event.ts))) for event, old in zip(rows.events, late, strict=True))
