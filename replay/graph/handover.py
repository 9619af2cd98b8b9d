"""Hand-over between host threads: a silent thread that resumes after another thread's burst was waiting for it.

Python's autograd is the common case: the main thread falls silent while the autograd thread launches the backward, and
each resumes right after the other's last event. A gap is such a wait when another thread of the rank became active
inside it, fell silent before it ended, and stayed silent while the resumed thread went on; the newest such thread is
the one waited for. What is left between that thread's last event and the resumption is host work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_US

_SILENCE_NS = 20 * NS_PER_US  # gaps between operators of one busy thread are shorter


@dataclass(frozen=True, slots=True)
class Handover:
    """Thread ``waiter`` was silent over [from_ns, until_ns] and was released by ``source`` at ``released_ns``."""

    waiter: int  # lane
    from_ns: int
    until_ns: int
    source: int  # lane
    released_ns: int


@dataclass(frozen=True, slots=True)
class Activity:
    """One host thread within the step: event boundaries, and which intervals between them are busy leaves."""

    lane: int
    boundary_ns: Int64  # sorted, from the step's begin to the thread's end
    busy_ns: Int64  # starts of intervals that lie inside a leaf operator or call (never a wait)

    def gaps(self) -> tuple[Int64, Int64]:
        """Begin and end of the silent gaps."""
        begin, end = self.boundary_ns[:-1], self.boundary_ns[1:]
        silent = (end - begin >= _SILENCE_NS) & ~np.isin(begin, self.busy_ns)
        return begin[silent], end[silent]


def find_handovers(threads: tuple[Activity, ...]) -> tuple[Handover, ...]:
    """All hand-overs among the threads of one rank, ordered by the time of release."""
    gaps = {thread.lane: thread.gaps() for thread in threads}
    found = [
        handover
        for waiter in threads
        for begin, end in zip(*gaps[waiter.lane], strict=True)
        if (handover := _released_by(waiter, int(begin), int(end), threads, gaps)) is not None
    ]
    return tuple(sorted(found, key=lambda h: (h.released_ns, h.until_ns, h.waiter)))


def _released_by(
    waiter: Activity, begin: int, end: int, threads: tuple[Activity, ...], gaps: dict[int, tuple[Int64, Int64]]
) -> Handover | None:
    best: Handover | None = None
    for other in threads:
        if other.lane == waiter.lane:
            continue
        released = _last_before(other, gaps[other.lane], begin, end)
        if released is not None and (best is None or released > best.released_ns):
            best = Handover(waiter.lane, begin, end, other.lane, released)
    return best


def _last_before(other: Activity, other_gaps: tuple[Int64, Int64], begin: int, end: int) -> int | None:
    """When ``other`` fell silent inside [begin, end] for longer than the wake-up took; None when it did not."""
    at = int(np.searchsorted(other.boundary_ns, end, side="right")) - 1
    if at < 0:
        return None
    released = int(other.boundary_ns[at])
    if released < begin or at == 0:  # its first boundary is the step's begin, not something it did
        return None
    gap_begin, gap_end = other_gaps
    j = int(np.searchsorted(gap_begin, released))
    if j < len(gap_begin) and gap_begin[j] == released:
        return released if gap_end[j] - released > 2 * (end - released) else None
    return released if at == len(other.boundary_ns) - 1 else None
