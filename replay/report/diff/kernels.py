"""Numba kernels of the comparison: bare arrays in, arrays out."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int32, Int64
from replay.core.jit import kernel

_OUTSIDE = -2  # a path that left the table


@kernel
def align(a: Int64, b: Int64, limit: int) -> Int64:
    """Per element of ``a`` its partner in ``b`` in a shortest edit script, -1 for deleted ones.

    Myers, "An O(ND) Difference Algorithm and Its Variations" (Algorithmica 1, 1986), greedy forward pass; row d of
    ``far`` keeps the furthest x on the diagonals -d, -d + 2, ..., d. Empty when more than ``limit`` edits are needed.
    """
    n, m = len(a), len(b)
    far = np.empty((limit + 1) * (limit + 2) // 2, np.int32)
    edits = -1
    for d in range(limit + 1):
        row, before = d * (d + 1) // 2, (d - 1) * d // 2
        for i in range(d + 1):
            k = 2 * i - d
            if d == 0:
                x = 0
            elif i == 0 or (i < d and far[before + i - 1] < far[before + i]):
                x = far[before + i]
            else:
                x = far[before + i - 1] + 1
            if x < 0 or x > n or x - k > m or x - k < 0:
                far[row + i] = _OUTSIDE
                continue
            while x < n and x - k < m and a[x] == b[x - k]:
                x += 1
            far[row + i] = x
            if x == n and x - k == m:
                edits = d
        if edits >= 0:
            break
    if edits < 0:
        return np.empty(0, np.int64)
    return _backtrack(far, edits, n, m)


@kernel
def _backtrack(far: Int32, edits: int, n: int, m: int) -> Int64:
    """Partners along the path that :func:`align` found, from its end to its begin."""
    partner = np.full(n, -1, np.int64)
    x, k = n, n - m
    for d in range(edits, -1, -1):
        i, before = (k + d) // 2, (d - 1) * d // 2
        down = d > 0 and (i == 0 or (i < d and far[before + i - 1] < far[before + i]))
        if d == 0:
            begin = 0
        elif down:
            begin = far[before + i]
        else:
            begin = far[before + i - 1] + 1
        while x > begin:
            x -= 1
            partner[x] = x - k
        if down:
            k += 1
        else:
            x -= 1
            k -= 1
    return partner
