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
_FOR_EVER_NS = 1 << 62


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
    gaps = [thread.gaps() for thread in threads]
    silences = _Silences.of(threads, gaps)
    found = [
        handover
        for waiter, own in zip(threads, gaps, strict=True)
        for begin, end in zip(*(bound.tolist() for bound in own), strict=True)
        if (handover := silences.releasing(waiter.lane, begin, end)) is not None
    ]
    return tuple(sorted(found, key=lambda h: (h.released_ns, h.until_ns, h.waiter)))


@dataclass(frozen=True, slots=True)
class _Silences:
    """When threads fell silent and for how long, by time; of those at one time, the first thread comes last."""

    begin_ns: Int64
    length_ns: Int64
    lane: Int64

    @classmethod
    def of(cls, threads: tuple[Activity, ...], gaps: list[tuple[Int64, Int64]]) -> _Silences:
        """Of all threads; the step's begin is nothing that a thread did, and after its last event it stays silent."""
        begins, lengths, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for place, (thread, (begin, end)) in enumerate(zip(threads, gaps, strict=True)):
            later = begin > thread.boundary_ns[0]
            last = thread.boundary_ns[1:][-1:]
            begins += [begin[later], last]
            lengths += [(end - begin)[later], np.full(len(last), _FOR_EVER_NS)]
            places.append(np.full(int(later.sum()) + len(last), place, np.int64))
        begin_ns, of_silence = np.concatenate(begins), np.concatenate(places)
        order = np.lexsort((-of_silence, begin_ns))
        lanes = np.array([thread.lane for thread in threads], np.int64)
        return cls(begin_ns[order], np.concatenate(lengths)[order], lanes[of_silence[order]])

    def releasing(self, waiter: int, begin: int, end: int) -> Handover | None:
        """The newest silence that began in [begin, end] and lasted for longer than the waking up took."""
        first, stop = np.searchsorted(self.begin_ns, (begin, end + 1)).tolist()
        inside = slice(first, stop)
        lasts = 2 * (end - self.begin_ns[inside]) < self.length_ns[inside]
        fit = np.flatnonzero(lasts & (self.lane[inside] != waiter))
        if not len(fit):
            return None
        newest = first + int(fit[-1])
        return Handover(waiter, begin, end, int(self.lane[newest]), int(self.begin_ns[newest]))
