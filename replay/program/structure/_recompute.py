"""Recomputed activations: forward work that belongs to a backward pass.

With checkpointing, a backward pass runs the forward of a layer, then its backward, layer by layer. Forward stretches
that a backward one follows without a pipeline transfer in between are therefore either a pass before its own backward
pass (last stage, or no pipeline) or recomputed; recomputed ones come several to a pass, each shorter than a pass.
"""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np

from replay.core.columns import Int64
from replay.program.structure._directions import BACKWARD, FORWARD

_SHORTER = 0.6  # of a whole pass: one of two layers, with room for what lies around the layers


def without_recomputation(direction: Int64, cut: Int64, *, last_stage: bool) -> Int64:
    """Directions with recomputed stretches turned backward."""
    runs = _runs(direction)
    forward = [last - first for first, last in runs if direction[first] == FORWARD]
    whole = max(forward, default=0)
    settled = direction.copy()
    for _, group in groupby(runs, key=lambda run: int(cut[run[0]])):
        zone = list(group)
        followed = [a for a, b in pairwise(zone) if (direction[a[0]], direction[b[0]]) == (FORWARD, BACKWARD)]
        piped = bool(cut[-1] > 0)
        kept = _passes(followed, whole, alone_is_pass=last_stage) if piped else _long(followed, whole)
        for first, last in followed:
            if (first, last) not in kept:
                settled[first:last] = BACKWARD
    return settled


def _passes(followed: list[tuple[int, int]], whole: int, *, alone_is_pass: bool) -> list[tuple[int, int]]:
    """Between two transfers, at most the first forward stretch before a backward one is a pass."""
    if len(followed) == 1:
        return followed if alone_is_pass else _long(followed, whole)
    if not followed:
        return []
    lengths = [last - first for first, last in followed]
    return followed[:1] if lengths[0] * _SHORTER > float(np.median(lengths[1:])) else []


def _long(followed: list[tuple[int, int]], whole: int) -> list[tuple[int, int]]:
    return [run for run in followed if run[1] - run[0] > _SHORTER * whole]


def _runs(direction: Int64) -> list[tuple[int, int]]:
    """Maximal stretches of one direction as (first, one past the last)."""
    bounds = np.r_[0, np.flatnonzero(np.diff(direction)) + 1, len(direction)]
    return [(int(a), int(b)) for a, b in pairwise(bounds) if direction[a]]
