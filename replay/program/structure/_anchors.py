"""Which work a layer does once: attention by its name, else what recurs as often as there are layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Float64, Int64

ATTENTION = re.compile(r"flash|fmha|sdpa|attention|attn|mha_|softmax", re.IGNORECASE)
"""Kernels of fused attention (FlashAttention, cuDNN, Transformer Engine, xFormers); softmax where it is not fused."""

_TEMPLATE = re.compile(r"<.*", re.DOTALL)
_MOST_PERIODS = 64  # tried; a layer recurs often, so its distance is a common one
_LEAST_REPEATED = 0.5  # share of a body that a repeated unit covers at least; less may be a coincidence


@dataclass(frozen=True, slots=True)
class Strand:
    """Symbols of the work of one pass, how long it takes, and how many layers it is known to have."""

    symbol: Int64
    duration_ns: Float64
    layers: int | None = None


def base_name(name: str) -> str:
    """A kernel's name without template arguments: one function, whatever it was instantiated for."""
    return _TEMPLATE.sub("", name)


@dataclass(frozen=True, slots=True)
class Anchor:
    """Symbols of work that every layer does once, and how they were chosen."""

    symbols: Int64
    how: str


def choose(strands: Sequence[Strand], attention: Int64) -> Anchor | None:
    """The anchor of layers in these passes; ``None`` where nothing recurs, or not as often as there are layers.

    ``attention`` is the number of the attention kernel of every symbol, -1 for none. Of the candidates that agree with
    the known numbers of layers, attention comes first, then the work that takes longest.
    """
    n = len(attention)
    counts = np.stack([np.bincount(strand.symbol, minlength=n) for strand in strands])
    weight = np.sum([np.bincount(s.symbol, s.duration_ns, minlength=n) for s in strands], axis=0)
    kernels = [np.flatnonzero(attention == kernel) for kernel in range(int(attention.max(initial=-1)) + 1)]
    fitting = [kernel for kernel in kernels if _fits(counts[:, kernel].sum(axis=1), strands)]
    if fitting:
        return Anchor(max(fitting, key=lambda kernel: float(weight[kernel].sum())), "attention")
    if any(strand.layers is not None for strand in strands):
        single = [symbol for symbol in np.flatnonzero(counts.any(axis=0)).tolist() if _fits(counts[:, symbol], strands)]
        best = max(single, key=lambda symbol: float(weight[symbol]), default=None)
        return None if best is None else Anchor(np.array([best]), "work that recurs as often as there are layers")
    repeated = _repeated(max(strands, key=lambda strand: len(strand.symbol)).symbol, weight)
    return None if repeated is None else Anchor(repeated, "a repeated sequence of work")


def _fits(counts: Int64, strands: Sequence[Strand]) -> bool:
    """Once a layer where the number of layers is known, else never missing."""
    known = [(count, s.layers) for count, s in zip(counts.tolist(), strands, strict=True) if s.layers is not None]
    if known:
        return all(count == layers for count, layers in known)
    return bool(counts.min() > 0)


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
    values, counts = np.unique(distance, return_counts=True)
    return sorted(values[np.argsort(-counts, kind="stable")][:_MOST_PERIODS].tolist())
