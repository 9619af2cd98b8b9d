"""Loads: which share of the tokens each expert gets, per layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Float64, freeze
from replay.core.errors import RefusedError


@dataclass(frozen=True, slots=True)
class Loads:
    """``share`` is (layers, experts), every row summing to 1; one row stands for all layers."""

    share: Float64
    source: str

    def __post_init__(self) -> None:
        freeze(self.share)

    @staticmethod
    def balanced(experts: int) -> Loads:
        """Every expert gets the same."""
        return Loads(np.full((1, experts), 1.0 / experts), "balanced")

    def capped(self, topk: int) -> Loads:
        """The loads that a router of ``topk`` different experts can bring about: no share is above 1 / topk.

        What the cap takes from an expert goes to the others in proportion to their shares.
        """
        return Loads(np.stack([_capped(row, 1.0 / topk) for row in self.share]), self.source)

    @property
    def experts(self) -> int:
        """Number of experts."""
        return int(self.share.shape[1])

    def of_ranks(self, ep: int) -> Float64:
        """Load of each expert-parallel rank over the mean load, (layers, ep); experts in equal blocks of neighbours."""
        if self.experts % ep:
            raise RefusedError(f"loads of {self.experts} experts do not divide over ep {ep}")
        return np.asarray(self.share.reshape(len(self.share), ep, -1).sum(axis=2) * ep)

    def slowest(self, ep: int) -> Float64:
        """Load of the busiest rank over the mean, per layer: it decides when an exchange is over."""
        return np.asarray(self.of_ranks(ep).max(axis=1))


def _capped(share: Float64, limit: float) -> Float64:
    full = np.zeros(len(share), dtype=np.bool_)
    result = share
    while (over := (result > limit * (1 + 1e-12)) & ~full).any():
        full |= over
        rest = share[~full].sum()
        if rest <= 0:
            raise RefusedError(
                f"loads that leave all but {int(full.sum())} experts empty cannot come from top-{1 / limit:.0f}"
            )
        result = np.where(full, limit, share * (1 - limit * full.sum()) / rest)
    return result
