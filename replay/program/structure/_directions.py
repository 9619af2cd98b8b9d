"""Forward or backward: which way each op of a launch sequence works, from the few whose own names tell.

Named ops are anchors. Between two anchors of one direction everything has that direction. Between anchors of opposite
directions the change is put where what was seen on either side fits best: with f and b the numbers of times that a
symbol was seen inside forward and backward stretches, a change from forward to backward after k ops scores

    sum_{i <= k} s_i - sum_{i > k} s_i,   s = ln((f + 1/2) / (b + 1/2)),

the reverse change the negative of it. Where a pipeline transfer lies in between, a change is only allowed there.
Work of an optimizer counts where an update can be: before a forward pass that follows no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from replay.core.columns import Bool, Float64, Int64

FORWARD, UNKNOWN, BACKWARD, UPDATE = 1, 0, -1, 2

_STEP = 2.0  # from one size of gaps between backward anchors to the next: those beyond lie between passes
_LEAST_WIDE = 8  # ops


@dataclass(frozen=True, slots=True)
class Work:
    """Compute ops of one rank in launch order, with what is known of them."""

    symbol: Int64  # equal for equal work, counted from 0
    anchor: Int64  # FORWARD, BACKWARD or UNKNOWN by the op's own name
    update: Bool  # named as an optimizer's
    cut: Int64  # batches of pipeline transfers before the op; rises where a pass may end

    def __len__(self) -> int:
        return len(self.anchor)


def directions(work: Work) -> Int64:
    """Direction of every op; UNKNOWN after the last one known to be in a pass, everywhere when nothing is backward."""
    direction = np.full(len(work), UNKNOWN, np.int64)
    if not (work.anchor == BACKWARD).any():
        return direction
    anchor = work.anchor if (work.anchor == FORWARD).any() else _with_gaps(work)
    known = np.flatnonzero(anchor)
    for first, last in pairwise(known.tolist()):
        if anchor[first] == anchor[last]:
            direction[first : last + 1] = anchor[first]
    direction[known] = anchor[known]
    direction[: known[0]] = anchor[known[0]]
    direction[: _after_updates(work.update[: known[0]])] = UPDATE
    score = _scores(work.symbol, direction)
    for first, last in pairwise(known.tolist()):
        updated = _after_updates(work.update[first + 1 : last])
        if anchor[first] == anchor[last]:
            continue
        if anchor[first] == BACKWARD and updated:
            direction[first + 1 : first + 1 + updated] = UPDATE
            direction[first + 1 + updated : last] = FORWARD
            _extend(direction, work, first, score)
        else:
            change = _change(score[first + 1 : last] * anchor[first], work.cut[first : last + 1])
            direction[first + 1 : first + 1 + change] = anchor[first]
            direction[first + 1 + change : last] = anchor[last]
    _extend(direction, work, int(known[-1]), score)
    return direction


def _after_updates(update: Bool) -> int:
    """How many ops there are up to the last one of an optimizer."""
    return int(np.flatnonzero(update)[-1]) + 1 if update.any() else 0


def _with_gaps(work: Work) -> Int64:
    """Anchors, with forward ones where the distance between backward ones is too wide for the inside of a pass.

    Where no name says forward, the stretch before the first backward op and every gap beyond the widest step in the
    sizes of gaps is a forward pass, as far as its work is not seen inside of backward passes.
    """
    known = np.flatnonzero(work.anchor == BACKWARD)
    gaps = np.diff(known)
    sizes = np.unique(np.r_[1, gaps])
    steps = np.where(sizes[1:] >= _LEAST_WIDE, sizes[1:] / sizes[:-1], 0.0)
    wide = gaps >= (sizes[1:][np.argmax(steps)] if steps.max(initial=0.0) >= _STEP else np.inf)
    found = work.anchor.copy()
    apart = np.zeros(len(work), np.bool_)
    apart[: known[0]] = True
    for first, last in zip(known[:-1][wide].tolist(), known[1:][wide].tolist(), strict=True):
        apart[first + 1 : last] = True
    inside = ~apart & (np.arange(len(work)) < known[-1])
    found[apart & ~work.update & ~np.isin(work.symbol, work.symbol[inside])] = FORWARD
    return found


def _scores(symbol: Int64, direction: Int64) -> Float64:
    """ln of how many times more often each op's symbol was seen forward than backward."""
    n = int(symbol.max(initial=-1)) + 1
    seen = [np.bincount(symbol[direction == way], minlength=n) + 0.5 for way in (FORWARD, BACKWARD)]
    return np.asarray(np.log(seen[0] / seen[1])[symbol])


def _change(score: Float64, cut: Int64) -> int:
    """After how many ops the direction changes; ``cut`` has one entry more on each side."""
    total = np.r_[0.0, np.cumsum(score)]
    allowed = np.flatnonzero(np.diff(cut) > 0)
    places = allowed if len(allowed) else np.arange(len(total))
    return int(places[np.argmax(total[places])])


def _extend(direction: Int64, work: Work, last: int, score: Float64) -> None:
    """Continue a pass over what was seen in passes of its direction, up to the next transfer or anchor."""
    for op in range(last + 1, len(work)):
        if work.cut[op] != work.cut[last] or work.anchor[op] or score[op] * direction[last] <= 0:
            return
        direction[op] = direction[last]
