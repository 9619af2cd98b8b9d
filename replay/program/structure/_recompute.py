"""Recomputed activations: forward work that belongs to a backward pass.

With checkpointing, a backward pass runs the forward of a layer, then its backward, layer by layer. A forward stretch
that a backward one follows without a pipeline transfer in between is therefore either a pass of its own or recomputed.
Behind a pass comes the backward of the head, which lacks most kernels of the layers' backward; behind a recomputed
layer comes the backward of that layer. A stretch alone between two transfers is a pass if passes balance only with it.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from replay.core.columns import Int64
from replay.program.structure._directions import BACKWARD, FORWARD, Work

_COMMON = 0.5  # of the stretches that the commonest kernel is in
_PARTIAL = 0.5  # of the common kernels
_UNLIKE = 0.5  # of the median number of ops in passes; beyond, a stretch is no such pass
_MOST = 0.75  # of the stretches are alike, if they are passes


class Stretch(NamedTuple):
    """Work of one direction between two transfers."""

    first: int
    last: int  # one past the end
    way: int
    zone: int  # transfers before it
    kernels: frozenset[int]  # that say they are backward's


def without_recomputation(work: Work, direction: Int64) -> Int64:
    """Directions with recomputed stretches turned backward."""
    stretches = _stretches(work, direction)
    alone: list[Stretch] = []
    recomputed: list[Stretch] = []
    for _, group in groupby(stretches, key=lambda stretch: stretch.zone):
        zone = list(group)
        followed = [(a, b) for a, b in pairwise(zone) if a.way == FORWARD]
        if len(followed) == 1:
            alone.append(followed[0][0])
        elif followed:
            recomputed += _recomputed(followed, stretches)
    if not _balanced(stretches, recomputed) and _balanced(stretches, [*recomputed, *alone]):
        recomputed += alone
    settled = direction.copy()
    for stretch in recomputed:
        settled[stretch.first : stretch.last] = BACKWARD
    return settled


def alternates(work: Work, direction: Int64) -> bool:
    """Whether stretches without transfers between them can be the passes of one micro-batch after the other.

    Those of one direction are then alike in length. Where forward and backward work of several micro-batches runs
    overlapped, layer by layer, they are not.
    """
    stretches = _stretches(work, direction)
    if not stretches or stretches[0].zone != stretches[-1].zone:
        return True
    for way in (FORWARD, BACKWARD):
        lengths = np.array([stretch.last - stretch.first for stretch in stretches if stretch.way == way])
        if len(lengths) and (np.abs(lengths / np.median(lengths) - 1) <= _UNLIKE).mean() < _MOST:
            return False
    return True


def _recomputed(followed: list[tuple[Stretch, Stretch]], stretches: list[Stretch]) -> list[Stretch]:
    """Of several forward stretches between two transfers, those that are no pass."""
    often = Counter(kernel for stretch in stretches for kernel in stretch.kernels)
    common = {kernel for kernel, count in often.items() if count >= _COMMON * max(often.values())}
    passes = [forward for forward, behind in followed if len(common & behind.kernels) <= _PARTIAL * len(common)]
    piped = stretches[0].zone != stretches[-1].zone
    if piped:
        passes = [forward for forward in passes if forward is followed[0][0]]
    elif not passes:
        passes = [forward for forward, _ in followed]
    return [forward for forward, _ in followed if forward not in passes]


def _balanced(stretches: list[Stretch], recomputed: list[Stretch]) -> bool:
    """As many forward passes as backward ones, once what is recomputed is part of the latter."""
    turned = {stretch.first for stretch in recomputed}
    ways = [(stretch.zone, BACKWARD if stretch.first in turned else stretch.way) for stretch in stretches]
    passes = [way for (_, way), _ in groupby(ways)]
    return passes.count(FORWARD) == passes.count(BACKWARD)


def _stretches(work: Work, direction: Int64) -> list[Stretch]:
    """Maximal stretches of one direction between transfers."""
    found: list[Stretch] = []
    index = range(len(direction))
    for (zone, way), group in groupby(index, key=lambda i: (int(work.cut[i]), int(direction[i]))):
        rows = list(group)
        if way in (FORWARD, BACKWARD):
            here = slice(rows[0], rows[-1] + 1)
            kernels = frozenset(work.symbol[here][work.anchor[here] == BACKWARD].tolist())
            found.append(Stretch(rows[0], rows[-1] + 1, way, zone, kernels))
    return found
