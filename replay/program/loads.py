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
