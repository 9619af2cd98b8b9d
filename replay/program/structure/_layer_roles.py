"""Roles inside a layer, from where its attention, its GEMMs and its expert exchanges lie.

Work is given with the embedding's side first, so that backward layers read like forward ones: attention up to its
output projection (whose gradient takes two GEMMs in backward); then an MLP, or router, dispatch, experts and combine.
Exchanges with GEMMs in between are dispatch and combine; where all experts are local, grouped GEMMs are the experts, or
else the GEMMs after the choice of the k best (one expert after the other).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from replay.core.columns import Bool, Int64
from replay.program.types import Role


@dataclass(frozen=True, slots=True)
class LayerWork:
    """Masks over the work of one layer."""

    attention: Bool  # the anchor, where that is attention
    gemm: Bool
    grouped: Bool  # GEMMs of several experts
    exchange: Bool  # of tokens between expert ranks
    routing: Bool
    loose: Bool  # collectives that end what is before them

    def __len__(self) -> int:
        return len(self.gemm)


def roles(work: LayerWork, projections: int) -> Int64:
    """Role of all work of a layer; ``projections`` GEMMs after attention belong to it. NONE where nothing tells."""
    role = np.full(len(work), Role.NONE, np.int64)
    first = _after_attention(work, projections)
    role[:first] = Role.ATTENTION
    rest = np.arange(len(work)) >= first
    if (rest & (work.exchange | work.grouped | work.routing)).any():
        _mixture(work, rest, role)
    elif first:
        role[rest] = Role.MLP
    return role


def _after_attention(work: LayerWork, projections: int) -> int:
    """Where attention with its output projection ends; 0 where attention is not known."""
    anchors = np.flatnonzero(work.attention)
    if not len(anchors):
        return 0
    following = np.flatnonzero(work.gemm & ~work.grouped & (np.arange(len(work)) > anchors[-1]))[:projections]
    end = int(following[-1] if len(following) else anchors[-1]) + 1
    while end < len(work) and work.loose[end]:
        end += 1
    return end


def _mixture(work: LayerWork, rest: Bool, role: Int64) -> None:
    """Router until the first exchange or expert GEMM, experts between the exchanges that have GEMMs in between."""
    index = np.arange(len(work))
    exchanges = np.flatnonzero(rest & work.exchange)
    gemms = np.flatnonzero(rest & (work.gemm | work.grouped))
    inside = [(a, b) for a, b in pairwise(exchanges) if ((gemms > a) & (gemms < b)).any()]
    if inside:
        (dispatched, _), (_, combined) = inside[0], inside[-1]
    else:
        grouped = np.flatnonzero(rest & work.grouped)
        if not len(grouped):  # a kernel an expert, behind the choice of experts
            grouped = gemms[gemms > np.flatnonzero(rest & work.routing).max(initial=-1)]
        if not len(grouped):
            role[rest & work.routing] = Role.ROUTER
            return
        dispatched, combined = grouped[0] - 1, grouped[-1] + 1
    begin = int(exchanges[0]) if len(exchanges) else dispatched + 1
    role[rest & (index < begin)] = Role.ROUTER
    role[rest & (index >= begin) & (index <= dispatched)] = Role.DISPATCH
    role[rest & (index > dispatched) & (index < combined)] = Role.EXPERTS
    role[rest & (index >= combined)] = Role.COMBINE
