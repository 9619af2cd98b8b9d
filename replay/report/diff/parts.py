"""The difference of two steps by state: integer ns, so that the parts sum to it exactly."""

from __future__ import annotations

from collections.abc import Mapping

from replay.report.breakdown import Breakdown, State
from replay.report.diff.types import Side

UNATTRIBUTED = "unattributed"  # what the parts of either side leave open


def common_rank(a: Side, b: Side, ranks: Mapping[int, int]) -> tuple[int, int] | None:
    """The rank whose states are compared: the slowest of the longer step, where both steps have it."""
    if a.execution is None or b.execution is None or not ranks:
        return None
    if b.step_ns >= a.step_ns:
        slowest = b.execution.breakdown.slowest_rank
        return next(((rank_a, rank_b) for rank_a, rank_b in ranks.items() if rank_b == slowest), None)
    slowest = a.execution.breakdown.slowest_rank
    return (slowest, ranks[slowest]) if slowest in ranks else None


def of_rank(breakdown: Breakdown, rank: int) -> dict[str, int]:
    """States of one rank, ns."""
    row = breakdown.time_ns[breakdown.ranks.index(rank)]
    return {state.label: int(ns) for state, ns in zip(State, row, strict=True)}


def difference(before: Mapping[str, int], after: Mapping[str, int], difference_ns: int) -> dict[str, int]:
    """State by state, b less a; what the states do not hold stands under ``unattributed``, so that all sum up."""
    if not before or not after:
        return {UNATTRIBUTED: difference_ns}
    parts = {key: after.get(key, 0) - before.get(key, 0) for key in dict.fromkeys((*before, *after))}
    rest = difference_ns - sum(parts.values())
    return parts | ({UNATTRIBUTED: rest} if rest else {})
