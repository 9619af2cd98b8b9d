"""How the router loads the experts: the share of a layer's tokens that each expert gets.

Every rank routes by the same shares, so a rank's split sizes differ from peer to peer, and ranks with popular experts
receive more rows than they send.
"""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BALANCED_NAME = "balanced"
_ZIPF = "zipf:"


@dataclass(frozen=True, slots=True)
class Load:
    """Shares per layer (outer) and expert (inner), each row sums to 1; no rows: balanced."""

    name: str = BALANCED_NAME
    shares: tuple[tuple[float, ...], ...] = ()

    def rows(self, layer: int, total: int, experts: int) -> tuple[int, ...]:
        """How many of one rank's ``total`` rows go to each expert; they sum to ``total`` (largest remainders)."""
        if not self.shares:
            return _apportion((1.0 / experts,) * experts, total)
        return _apportion(self.shares[layer % len(self.shares)], total)


BALANCED = Load()


def read(text: str, layers: int, experts: int) -> Load:
    """``balanced``, ``zipf:A`` or a CSV file of counts: one row a layer, one column an expert."""
    if text == BALANCED_NAME:
        return BALANCED
    if text.startswith(_ZIPF):
        return Load(text, tuple(_zipf(float(text.removeprefix(_ZIPF)), layer, experts) for layer in range(layers)))
    rows = [tuple(map(float, row)) for row in csv.reader(Path(text).read_text().splitlines()) if row]
    if any(len(row) != experts for row in rows):
        raise ValueError(f"{text}: every row must hold {experts} counts, one an expert")
    return Load(Path(text).name, tuple(_normalised(row) for row in rows))


def _zipf(exponent: float, layer: int, experts: int) -> tuple[float, ...]:
    """Share of the r-th most popular expert ~ r^-A; which expert is the r-th differs from layer to layer."""
    weights = [rank**-exponent for rank in range(1, experts + 1)]
    random.Random(f"layer {layer}").shuffle(weights)
    return _normalised(tuple(weights))


def _normalised(weights: tuple[float, ...]) -> tuple[float, ...]:
    total = sum(weights)
    return tuple(weight / total for weight in weights)


@cache
def _apportion(shares: tuple[float, ...], total: int) -> tuple[int, ...]:
    exact = [share * total for share in shares]
    rows = [int(value) for value in exact]
    by_remainder = sorted(range(len(rows)), key=lambda e: (rows[e] - exact[e], e))
    for expert in by_remainder[: total - sum(rows)]:
        rows[expert] += 1
    return tuple(rows)
