"""Clock alignment of ranks from matched collectives: offset and error per rank (R3).

A member that waits for all cannot end before every peer has begun: ``end_a + o_a >= start_b + o_b``; all matched pairs
together bound the offset of every rank against the first from both sides. Where symmetric collectives (all-reduce
like: all members end together) exist, the median difference of their ends estimates the offset inside those bounds. A
rank whose bounds admit zero, and whose estimate does not differ from zero by more than its own spread, keeps its clock;
with fewer than three such collectives the bounds alone decide, and their ends say how well. A rank also keeps its clock
where only collectives speak against it of which one of the two lost a member, and they contradict each other.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_S
from replay.graph.collectives import Matched
from replay.trace import CollectiveKind, Trace

_NO_BOUND_NS = 1 << 60  # 36 years: clocks may count from boot on one node and from 1970 on another
_FAR_BEYOND = 10  # an offset of unsure members counts where it is that many times what they contradict each other by
_LARGEST_ERROR_NS = 10 * NS_PER_S  # said of an offset that only one side bounds
_SYMMETRIC = (
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.BARRIER,
)
# a member of these cannot end before its peers have begun; a send may (eager), and so may the root of a broadcast
_WAITING = (
    *_SYMMETRIC,
    CollectiveKind.ALL_TO_ALL,
    CollectiveKind.SEND_RECV,
    CollectiveKind.RECV,
    CollectiveKind.NOTIFY,
)


def align(trace: Trace, matched: Matched) -> dict[int, tuple[int, int]]:
    """Offset to add to each rank's times and its error, ns; the first rank is the reference (0, 0).

    A rank that shares no collective with the reference, directly or through others, keeps offset 0 and error -1.
    """
    ranks = sorted({int(r) for r in trace.rank[matched.event]})
    result: dict[int, tuple[int, int]] = dict.fromkeys(ranks, (0, -1))
    if not ranks:
        return result
    result[ranks[0]] = (0, 0)
    todo, done = set(ranks[1:]), [ranks[0]]
    while done:
        reference = done.pop(0)
        base, base_error = result[reference]
        for rank in sorted(todo):
            found = _pair_offset(trace, matched, reference, rank)
            if found is not None:
                result[rank] = (base + found[0], base_error + found[1])
                todo.discard(rank)
                done.append(rank)
    return result


def _pair_offset(trace: Trace, matched: Matched, a: int, b: int) -> tuple[int, int] | None:
    """Offset of rank ``b`` against ``a`` and its error, ns; None when nothing they share bounds it."""
    rows_a, rows_b, sure = _common(trace, matched, a, b)
    kind_a = trace.collectives.kind[trace.comm[matched.event[rows_a]]]
    kind_b = trace.collectives.kind[trace.comm[matched.event[rows_b]]]
    b_waits, a_waits = np.isin(kind_b, _WAITING), np.isin(kind_a, _WAITING)
    low = (matched.start_ns[rows_a] - matched.end_ns[rows_b])[b_waits].max(initial=-_NO_BOUND_NS)
    high = (matched.end_ns[rows_a] - matched.start_ns[rows_b])[a_waits].min(initial=_NO_BOUND_NS)
    if not (a_waits.any() or b_waits.any()):
        return None
    disagreement = max(int(low - high), 0)  # bounds from rightly matched members leave room between them
    low, high = min(int(low), int(high)), max(int(low), int(high))
    if not sure and max(abs(low), abs(high)) <= _FAR_BEYOND * disagreement:
        return 0, disagreement
    ends = (matched.end_ns[rows_a] - matched.end_ns[rows_b])[np.isin(kind_a, _SYMMETRIC)]
    if len(ends) and len(ends) < 3 and low <= 0 <= high:
        return 0, int(np.abs(ends).max())
    if len(ends) < 3:
        middle = (low + high) // 2 if max(-low, high) < _NO_BOUND_NS else (low if low > 0 else high)
        return (0 if low <= 0 <= high else middle), min((high - low) // 2, _LARGEST_ERROR_NS)
    estimate = int(np.median(ends))
    spread = int(np.median(np.abs(ends - estimate)))
    if low <= 0 <= high and abs(estimate) <= spread:
        return 0, spread
    return min(max(estimate, low), high), spread


def _common(trace: Trace, matched: Matched, a: int, b: int) -> tuple[Int64, Int64, bool]:
    """Rows of both ranks that are members of the same collectives, and whether they surely are.

    Where one of the ranks lost a member (profilers do), all later ones of its family are matched with their neighbours
    and would shift the clock by the time between them: families of unequal counts are used only if there is no other.
    """
    ranks = trace.rank[matched.event]
    rows_a, rows_b = np.flatnonzero(ranks == a), np.flatnonzero(ranks == b)
    _, at_a, at_b = np.intersect1d(matched.match[rows_a], matched.match[rows_b], return_indices=True)
    size = int(matched.family.max(initial=-1)) + 1
    count_a, count_b = (np.bincount(matched.family[rows], minlength=size) for rows in (rows_a, rows_b))
    complete = (count_a == count_b)[matched.family[rows_a[at_a]]]
    sure = bool(complete.any())
    chosen = complete if sure else ~complete
    return rows_a[at_a][chosen], rows_b[at_b][chosen], sure
