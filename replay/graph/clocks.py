"""Clock alignment of ranks from matched collectives: offset and error per rank (R3).

A member cannot end before every peer has begun, so for ranks a and b: ``end_a + o_a >= start_b + o_b``; all matched
pairs together bound the offset of every rank against the first from both sides. Where symmetric collectives (all-reduce
like: all members end together) exist, the median difference of their ends estimates the offset inside those bounds. A
rank whose bounds admit zero, and whose estimate does not differ from zero by more than its own spread, keeps its clock.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.collectives import Matched
from replay.trace import CollectiveKind, Trace

_SYMMETRIC = (
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.BARRIER,
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
    """Offset of rank ``b`` against ``a`` and its error, ns; None when they share no collective."""
    rows_a, rows_b = _common(trace, matched, a, b)
    if not len(rows_a):
        return None
    low = int((matched.start_ns[rows_a] - matched.end_ns[rows_b]).max())
    high = int((matched.end_ns[rows_a] - matched.start_ns[rows_b]).min())
    low, high = min(low, high), max(low, high)
    kinds = trace.collectives.kind[trace.comm[matched.event[rows_a]]]
    ends = (matched.end_ns[rows_a] - matched.end_ns[rows_b])[np.isin(kinds, _SYMMETRIC)]
    if len(ends) < 3:
        return (0 if low <= 0 <= high else (low + high) // 2), (high - low) // 2
    estimate = int(np.median(ends))
    spread = int(np.median(np.abs(ends - estimate)))
    if low <= 0 <= high and abs(estimate) <= spread:
        return 0, spread
    return min(max(estimate, low), high), spread


def _common(trace: Trace, matched: Matched, a: int, b: int) -> tuple[Int64, Int64]:
    ranks = trace.rank[matched.event]
    rows_a, rows_b = np.flatnonzero(ranks == a), np.flatnonzero(ranks == b)
    _, at_a, at_b = np.intersect1d(matched.match[rows_a], matched.match[rows_b], return_indices=True)
    return rows_a[at_a], rows_b[at_b]
