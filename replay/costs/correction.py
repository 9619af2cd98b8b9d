"""A learned correction of a cost function: what its physics leaves over, as a smooth table over logarithms of sizes.

predicted = model · exp(gate · Σ w·hat). The hats are piecewise linear between knots, over each pair of sizes and over
all of them. The gate is 1 where every size and every product of two sizes has been seen, and falls to 0 within a
quarter of an octave outside: beyond what was measured the physics stands alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from replay.core.columns import Float64, Int64
from replay.cost_model import Columns

FADE_OCTAVES = 0.25


@dataclass(frozen=True, slots=True)
class Correction:
    """``knots`` per size (log2), ``weights`` of all tables one after the other, ``seen`` ranges (log2) by size and by
    product of two sizes."""

    names: tuple[str, ...]
    knots: tuple[Float64, ...]
    weights: Float64
    seen: tuple[tuple[float, float], ...]


def factor(correction: Correction, columns: Columns) -> Float64:
    """What to multiply predicted times by, one per row."""
    sizes = logarithms(correction.names, columns)
    index, value = corners(sizes, correction.knots)
    learned = (correction.weights[index] * value).sum(axis=1)
    return np.asarray(np.exp(_gate(sizes, correction.seen) * learned))


def logarithms(names: tuple[str, ...], columns: Columns) -> Float64:
    """log2 of size columns, (rows, sizes)."""
    return np.stack([np.log2(columns[name]) for name in names], axis=1)


def tables(sizes: int) -> tuple[tuple[int, ...], ...]:
    """The sizes that each table spans: every pair, and all."""
    pairs = tuple(combinations(range(sizes), 2))
    return (*pairs, tuple(range(sizes))) if sizes > 2 else pairs


def corners(sizes: Float64, knots: tuple[Float64, ...]) -> tuple[Int64, Float64]:
    """(rows, corners) indices into the weights and values of the hats that are not zero there."""
    below, share = zip(*(_between(sizes[:, d], knots[d]) for d in range(len(knots))), strict=True)
    indices, values, offset = [], [], 0
    for dimensions in tables(len(knots)):
        shape = tuple(len(knots[d]) for d in dimensions)
        for corner in product((0, 1), repeat=len(dimensions)):
            at = tuple(below[d] + step for d, step in zip(dimensions, corner, strict=True))
            indices.append(offset + np.ravel_multi_index(at, shape))
            hats = [share[d] if step else 1.0 - share[d] for d, step in zip(dimensions, corner, strict=True)]
            values.append(np.prod(hats, axis=0))
        offset += int(np.prod(shape))
    return np.stack(indices, axis=1), np.stack(values, axis=1)


def seen_ranges(sizes: Float64) -> tuple[tuple[float, float], ...]:
    """Ranges of the logarithms of sizes, then of products of two sizes."""
    return tuple((float(values.min()), float(values.max())) for values in _with_products(sizes))


def to_coefficients(correction: Correction) -> dict[str, tuple[float, ...]]:
    """As named tuples of numbers, which a profile can hold."""
    knots = {f"knots {name}": tuple(k.tolist()) for name, k in zip(correction.names, correction.knots, strict=True)}
    seen = tuple(bound for pair in correction.seen for bound in pair)
    return {**knots, "seen": seen, "weights": tuple(correction.weights.tolist())}


def from_coefficients(coefficients: Mapping[str, tuple[float, ...]]) -> Correction | None:
    """The correction that a profile holds, ``None`` where it holds none."""
    names = tuple(name.removeprefix("knots ") for name in coefficients if name.startswith("knots "))
    if not names:
        return None
    knots = tuple(np.array(coefficients[f"knots {name}"]) for name in names)
    bounds = coefficients["seen"]
    seen = tuple(zip(bounds[::2], bounds[1::2], strict=True))
    return Correction(names, knots, np.array(coefficients["weights"]), seen)


def _between(values: Float64, knots: Float64) -> tuple[Int64, Float64]:
    """Knot below each value and the share of the way to the next; beyond the ends their values."""
    below = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
    share = np.clip((values - knots[below]) / (knots[below + 1] - knots[below]), 0.0, 1.0)
    return below, share


def _with_products(sizes: Float64) -> list[Float64]:
    single = [sizes[:, d] for d in range(sizes.shape[1])]
    return single + [single[a] + single[b] for a, b in combinations(range(len(single)), 2)]


def _gate(sizes: Float64, seen: tuple[tuple[float, float], ...]) -> Float64:
    outside = np.zeros(len(sizes))
    for values, (low, high) in zip(_with_products(sizes), seen, strict=True):
        outside = np.maximum(outside, np.maximum(low - values, values - high))
    return np.asarray(np.clip(1.0 - outside / FADE_OCTAVES, 0.0, 1.0))
