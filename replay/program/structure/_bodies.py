"""Layers inside passes: where the work around one recurring op is alike.

A *body* is the work of one pass with the embedding's side first (a backward pass reversed). An *anchor* is work that a
layer does once, its attention if possible. Every layer reaches from its anchor to the left as far as layers are alike
before their anchors, and ends where the next one begins. Only the first layer of the model and the last need more than
that: the embedding lies before the one, the head behind the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, pairwise, takewhile

import numpy as np

from replay.core.columns import Bool, Int64

BEFORE, AFTER = -1, -2
"""Layer of work on the embedding's and on the head's side of the layers."""

_LONGER = 1.25  # times a part of a layer at least: a layer, compared with its first part


@dataclass(frozen=True)
class Body:
    """Work of one pass; ``times`` says how many passes have it."""

    symbol: Int64
    anchor: Bool
    loose: Bool  # work that no layer begins with
    opening: bool  # the embedding may be in it
    closing: bool  # the head may be in it
    times: int = 1

    @cached_property
    def places(self) -> list[int]:
        """Where the anchors are."""
        return [int(place) for place in np.flatnonzero(self.anchor)]

    @cached_property
    def before(self) -> list[Int64]:
        """Work before every anchor, nearest first, back to the anchor before it."""
        begins = [0, *(place + 1 for place in self.places)]
        return [self.symbol[begin:place][::-1] for begin, place in zip(begins, self.places, strict=False)]


def layers_of(bodies: Sequence[Body]) -> list[Int64]:
    """Layer within its body, counted from 0 on the embedding's side, of all work; BEFORE and AFTER outside."""
    reach = _reach(bodies)
    begins = _whole(bodies, [[max(place - reach, 0) for place in body.places] for body in bodies])
    ends = _known_ends(bodies, begins)
    found = []
    for body, begin in zip(bodies, begins, strict=True):
        layer = np.searchsorted(begin, np.arange(len(body.symbol)), side="right") - 1  # before the first: BEFORE
        if begin:
            layer[_end(body, begin[-1], ends) :] = AFTER
        found.append(layer)
    return found


def _whole(bodies: Sequence[Body], begins: Sequence[list[int]]) -> list[list[int]]:
    """Begins of layers, without those of a second attention in one layer (cross-attention of a decoder).

    What reaches from one anchor to the next is only a part of a layer if it is what another one begins with.
    """
    parts = set(_begun(_known_ends(bodies, begins)))
    found = []
    for body, begin in zip(bodies, begins, strict=True):
        cut = [body.symbol[first:last].tobytes() in parts for first, last in pairwise(begin)]
        found.append([first for first, after_part in zip(begin, [False, *cut], strict=False) if not after_part])
    return found


def _begun(known: Sequence[Int64]) -> Iterator[bytes]:
    """Those that a longer one begins with: in alphabetical order these follow one another."""
    ordered = sorted(row.tobytes() for row in known)
    for index, part in enumerate(ordered):
        following = takewhile(partial(_begins_with, part=part), islice(ordered, index + 1, None))
        if any(len(part) * _LONGER <= len(other) for other in following):
            yield part


def _begins_with(other: bytes, *, part: bytes) -> bool:
    return other.startswith(part)


def _reach(bodies: Sequence[Body]) -> int:
    """How far layers reach to the left of their anchors: as far as the first of a body is like any other."""
    inner = _distinct(before for body in bodies for before in body.before[1:])
    lone = _distinct(body.before[0] for body in bodies if body.places and not body.opening)
    votes: Counter[int] = Counter()
    for body in bodies:
        if not body.places:
            continue
        own = body.before[0]
        others = inner or [
            other for other in lone if body.opening or len(lone) == 1 or other.tobytes() != own.tobytes()
        ]
        alike = max((_common(own, other) for other in others), default=len(own))
        start = body.places[0] - alike
        while start < body.places[0] and body.loose[start]:
            start += 1
        votes[body.places[0] - start] += body.times
    return votes.most_common(1)[0][0] if votes else 0


def _known_ends(bodies: Sequence[Body], begins: Sequence[Sequence[int]]) -> list[Int64]:
    """Work of layers whose end is known: those that another follows, and the last of a pass without a head."""
    known = []
    for body, begin in zip(bodies, begins, strict=True):
        known += [body.symbol[first:last] for first, last in pairwise(begin)]
        if begin and not body.closing:
            known.append(body.symbol[begin[-1] :])
    return _distinct(known)


def _end(body: Body, begin: int, known: Sequence[Int64]) -> int:
    """One past the last layer's work.

    It is as long as the known layer that it is. One of another kind ends where what layers begin with (a norm) happens
    once more than in the known layer that it is most like, or is as long as that one.
    """
    own = body.symbol[begin:]
    if not body.closing or not known:
        return len(body.symbol)
    whole = [len(other) for other in known if _common(own, other) == len(other)]
    likest = max(known, key=lambda other: _common(own, other))
    again = np.flatnonzero(own == own[0])
    usual = int((likest == own[0]).sum())
    other_kind = int(again[usual]) if 0 < usual < len(again) else len(likest)
    return begin + min(max(whole, default=other_kind), len(own))


def _common(a: Int64, b: Int64) -> int:
    """Length of the common beginning."""
    n = min(len(a), len(b))
    differing = np.flatnonzero(a[:n] != b[:n])
    return int(differing[0]) if len(differing) else n


def _distinct(rows: Iterator[Int64] | Sequence[Int64]) -> list[Int64]:
    return list({row.tobytes(): row for row in rows}.values())
