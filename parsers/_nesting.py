"""Which host range encloses a call: one sweep with a stack per thread, O(n log n)."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.core.jit import kernel


def innermost(
    lane: Int64, start_ns: Int64, dur_ns: Int64, ranges: Int64, calls: Int64, *, strictly: bool = False
) -> Int64:
    """Row of the innermost of ``ranges`` on the same lane in which each of ``calls`` starts, -1 none.

    With ``strictly`` a range does not enclose itself.
    """
    rows = np.concatenate([ranges, calls])
    is_call = np.zeros(len(rows), dtype=np.int64)
    is_call[len(ranges) :] = 1
    order = np.lexsort((is_call, -dur_ns[rows], start_ns[rows], lane[rows]))
    if not strictly:
        order = np.lexsort((-dur_ns[rows], is_call, start_ns[rows], lane[rows]))
    end = start_ns[rows] + dur_ns[rows]
    found = _sweep(lane[rows], start_ns[rows], end, rows, is_call, order, strictly)
    return found[len(ranges) :]


@kernel
def _sweep(
    lane: Int64, start: Int64, end: Int64, rows: Int64, is_call: Int64, order: Int64, strictly: bool
) -> Int64:  # pragma: no cover - compiled
    found = np.full(len(rows), -1, dtype=np.int64)
    stack = np.empty(len(rows), dtype=np.int64)
    depth = 0
    current = np.int64(-1)
    for i in range(len(order)):
        at = order[i]
        if lane[at] != current:
            current = lane[at]
            depth = 0
        while depth > 0 and end[stack[depth - 1]] <= start[at]:
            depth -= 1
        if is_call[at] == 0:
            stack[depth] = at
            depth += 1
            continue
        top = depth - 1
        while top >= 0 and strictly and rows[stack[top]] == rows[at]:
            top -= 1
        if top >= 0:
            found[at] = rows[stack[top]]
    return found
