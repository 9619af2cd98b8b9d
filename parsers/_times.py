"""One time axis for all files: absolute clocks share an epoch, and times that cannot be real are taken out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parsers._rows import Rows
from replay.core.columns import Bool, Int64
from replay.core.units import NS_PER_S
from replay.trace import DEVICE_KINDS, Health

ABSOLUTE_NS = 10**17  # 1973; a clock that reads less does not count from 1970
_HOUR_NS = 3600 * NS_PER_S  # no profile is that long: an event at 0 with the rest that far away has lost its time
_LONGEST_NS = 1 << 53  # 104 days: an end that was never written


@dataclass(frozen=True, slots=True)
class Times:
    """Start (ns since ``epoch_ns``) and duration of all rows, and which rows have believable ones."""

    start_ns: Int64
    dur_ns: Int64
    usable: Bool
    epoch_ns: int
    health: Health


def common_times(files: Sequence[Rows], bases_ns: Sequence[int]) -> Times:
    """Times of all rows on one axis. A file's times are relative to its base (0: as they stand).

    Negative durations that end before anything began are lost ends and dropped; the others are rounding and set to 0.
    """
    dropped: Counter[str] = Counter()
    clipped: Counter[str] = Counter()
    usable = [_believable(rows, dropped, clipped) for rows in files]
    firsts = [
        int(rows.start_ns[kept].min()) + base
        for rows, base, kept in zip(files, bases_ns, usable, strict=True)
        if kept.any()
    ]
    absolute = [first > ABSOLUTE_NS for first in firsts]
    epoch = min(firsts) if firsts and all(absolute) else 0
    warnings = []
    if any(absolute) and not all(absolute):
        warnings.append("some files have absolute times and others do not: their ranks cannot be put on one clock")
    starts = [rows.start_ns + (base - epoch) for rows, base in zip(files, bases_ns, strict=True)]
    health = Health(dropped=dict(dropped), clipped=dict(clipped), warnings=tuple(warnings))
    durations = np.maximum(np.concatenate([rows.dur_ns for rows in files]), 0)
    return Times(np.concatenate(starts), durations, np.concatenate(usable), epoch, health)


def _believable(rows: Rows, dropped: Counter[str], clipped: Counter[str]) -> Bool:
    """Rows of one file whose times can be real."""
    start, dur = rows.start_ns, rows.dur_ns
    zero = start == 0
    middle = int(np.median(start)) if len(start) else 0
    unstamped = zero & (dur == 0) & np.isin(rows.kind, DEVICE_KINDS)
    lost_start = zero & ~unstamped & (middle > _HOUR_NS)
    too_long = ~unstamped & ~lost_start & (dur > _LONGEST_NS)
    kept: Bool = ~(unstamped | lost_start | too_long)
    first = int(start[kept].min()) if kept.any() else 0
    negative = kept & (dur < 0)
    lost_end = negative & (start + dur < first)
    for reason, rows_lost in (
        ("device work without times (ts 0, dur 0)", unstamped),
        ("start time lost (ts 0)", lost_start),
        ("longer than 104 days (end time lost)", too_long),
        ("ends before the file begins (end time lost)", lost_end),
    ):
        if rows_lost.any():
            dropped[reason] += int(rows_lost.sum())
    if (negative & ~lost_end).any():
        clipped["negative durations set to 0"] += int((negative & ~lost_end).sum())
    return kept & ~lost_end
