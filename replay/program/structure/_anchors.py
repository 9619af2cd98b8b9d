"""Which work a layer does once: attention by its name, else what recurs as often as there are layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Float64, Int64

SOFTMAX = re.compile(r"softmax", re.IGNORECASE)
"""Kernels of attention that is not fused, and of other things: gates, losses."""

_TEMPLATE = re.compile(r"<.*", re.DOTALL)
_LEAST_PERIOD = 2  # work of a layer; the same kernel over and over is none
_MOST_PERIODS = 64  # tried; a layer recurs often, so its distance is a common one
_LEAST_REPEATED = 0.5  # share of a body that a repeated unit covers at least; less may be a coincidence


@dataclass(frozen=True, slots=True)
class Strand:
    """Symbols of the work of one pass, and how long it takes."""

    symbol: Int64
    duration_ns: Float64


def base_name(name: str) -> str:
    """A kernel's name without template arguments: one function, whatever it was instantiated for."""
    return _TEMPLATE.sub("", name)


@dataclass(frozen=True, slots=True)
class Anchor:
    """Symbols of work that every layer does once, and how they were chosen."""

    symbols: Int64
    how: str


def choose(strands: Sequence[Strand], attention: Int64, softmax: Int64, layers: int | None) -> Anchor | None:
    """The anchor of layers in these passes, ``None`` where nothing recurs.

    ``attention`` and ``softmax`` number the kernels of fused and of other attention, -1 for the symbols of other work.
    In this order: either one that occurs as often as there are ``layers``; fused attention in every pass; other work
    as often as there are layers; a softmax in every pass, in one more than once (a loss has one); what repeats. Of
    several, the one that takes longest.
    """
    n = len(attention)
    counts = np.stack([np.bincount(strand.symbol, minlength=n) for strand in strands])
    weight = np.sum([np.bincount(s.symbol, s.duration_ns, minlength=n) for s in strands], axis=0)
    fused, other = _kernels(attention), _kernels(softmax)
    every = [np.array([symbol]) for symbol in np.flatnonzero(counts.all(axis=0))]

    def stated(kernel: Int64) -> bool:
        return layers is not None and bool((counts[:, kernel].sum(axis=1) == layers).all())

    def present(kernel: Int64) -> bool:
        return bool((counts[:, kernel].sum(axis=1) > 0).all())

    def recurring(kernel: Int64) -> bool:
        return present(kernel) and int(counts[:, kernel].sum(axis=1).max()) > 1

    for candidates, fits, how in (
        (fused + other, stated, "attention"),
        (fused, present, "attention"),
        (every, stated, "work that recurs as often as there are layers"),
        (other, recurring, "softmax"),
    ):
        fitting = [kernel for kernel in candidates if fits(kernel)]
        if fitting:
            return Anchor(max(fitting, key=lambda kernel: float(weight[kernel].sum())), how)
    repeated = _repeated(max(strands, key=lambda strand: len(strand.symbol)).symbol, weight)
    return None if repeated is None else Anchor(repeated, "a repeated sequence of work")


def _kernels(number: Int64) -> list[Int64]:
    """Symbols of each numbered kernel."""
    return [np.flatnonzero(number == kernel) for kernel in range(int(number.max(initial=-1)) + 1)]


def _repeated(symbol: Int64, weight: Float64) -> Int64 | None:
    """The heaviest symbol that the most repeated unit of a sequence holds once."""
    unit = repeated_unit(symbol)
    if unit is None or (unit.last - unit.first) < _LEAST_REPEATED * len(symbol):
        return None
    inside = symbol[unit.first : unit.last]
    codes, counts = np.unique(inside, return_counts=True)
    everywhere = np.bincount(symbol)[codes]
    once = codes[(counts == unit.copies) & (everywhere == unit.copies)]
    return np.array([once[np.argmax(weight[once])]]) if len(once) else None


@dataclass(frozen=True, slots=True)
class Unit:
    """``copies`` of a sequence of ``period`` symbols, one after the other, in ``first:last``."""

    first: int
    last: int
    period: int

    @property
    def copies(self) -> int:
        """Whole copies."""
        return (self.last - self.first) // self.period


def repeated_unit(symbol: Int64) -> Unit | None:
    """The tandem repeat that covers most of a sequence; of equals, the one with the shortest period.

    Periods tried are the distances at which symbols recur; each costs one comparison of the sequence with itself.
    """
    best: Unit | None = None
    for period in _periods(symbol):
        same = np.r_[False, symbol[period:] == symbol[:-period], False]
        edges = np.flatnonzero(np.diff(same.astype(np.int8)))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            whole = (last + period - first) // period * period
            if last - first >= period and (best is None or whole > best.last - best.first):
                best = Unit(first, first + whole, period)
    return best


def _periods(symbol: Int64) -> list[int]:
    """Usual distances between equal symbols, ascending."""
    order = np.argsort(symbol, kind="stable")
    same = np.diff(symbol[order]) == 0
    distance = np.diff(order)[same]
    distance = distance[distance >= _LEAST_PERIOD]
    values, counts = np.unique(distance, return_counts=True)
    return sorted(values[np.argsort(-counts, kind="stable")][:_MOST_PERIODS].tolist())
