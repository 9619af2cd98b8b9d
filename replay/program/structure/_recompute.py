"""Recomputed activations: forward work that belongs to a backward pass.

With checkpointing, a backward pass runs the forward of a layer, then its backward, layer by layer. A forward stretch
that a backward one follows without a pipeline transfer in between is therefore either a pass of its own (last stage, no
pipeline, transfers for several passes at once) or recomputed. Between two transfers only the first can be a pass; of
the ways to read them, the one that finds as many forward passes as backward ones holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

import numpy as np

from replay.core.columns import Int64
from replay.program.structure._directions import BACKWARD, FORWARD

_SHORTER = 0.6  # of a whole pass: one of two layers, with room for what lies around the layers
Run = tuple[int, int]  # first, one past the last


def without_recomputation(direction: Int64, cut: Int64) -> Int64:
    """Directions with recomputed stretches turned backward."""
    runs = _runs(direction, cut)
    zones = [list(zone) for _, zone in groupby(runs, key=lambda run: int(cut[run[0]]))]
    followed = [
        [a for a, b in pairwise(zone) if direction[a[0]] == FORWARD and direction[b[0]] == BACKWARD] for zone in zones
    ]
    if not any(followed):
        return direction
    if len(zones) == 1:
        return _settled(direction, followed, _as_long_as(runs, direction))
    readings = [_settled(direction, followed, kept) for kept in (_first_if_long, _first_of_several, _none)]
    return next((reading for reading in readings if _balanced(reading, cut)), readings[0])


def _settled(direction: Int64, followed: Sequence[list[Run]], kept: Callable[[list[Run]], list[Run]]) -> Int64:
    settled = direction.copy()
    for stretches in followed:
        passes = kept(stretches)
        for first, last in stretches:
            if (first, last) not in passes:
                settled[first:last] = BACKWARD
    return settled


def _as_long_as(runs: Sequence[Run], direction: Int64) -> Callable[[list[Run]], list[Run]]:
    """Without transfers: stretches nearly as long as the longest."""
    whole = max(last - first for first, last in runs if direction[first] == FORWARD)
    return lambda stretches: [(first, last) for first, last in stretches if last - first > _SHORTER * whole]


def _first_if_long(stretches: list[Run]) -> list[Run]:
    """The first, if it is alone or longer than those after it."""
    lengths = [last - first for first, last in stretches]
    long = len(lengths) == 1 or (len(lengths) > 1 and lengths[0] * _SHORTER > float(np.median(lengths[1:])))
    return stretches[:1] if long else []


def _first_of_several(stretches: list[Run]) -> list[Run]:
    return stretches[:1] if len(stretches) > 1 else []


def _none(stretches: list[Run]) -> list[Run]:
    del stretches
    return []


def _balanced(direction: Int64, cut: Int64) -> bool:
    """As many forward stretches as backward ones."""
    ways = [int(direction[first]) for first, _ in _runs(direction, cut)]
    return ways.count(FORWARD) == ways.count(BACKWARD)


def _runs(direction: Int64, cut: Int64) -> list[Run]:
    """Maximal stretches of one direction between transfers."""
    changes = (np.diff(direction) != 0) | (np.diff(cut) != 0)
    bounds = np.r_[0, np.flatnonzero(changes) + 1, len(direction)]
    return [(int(a), int(b)) for a, b in pairwise(bounds) if direction[a] in (FORWARD, BACKWARD)]
