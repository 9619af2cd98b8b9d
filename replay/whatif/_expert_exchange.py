"""Expert exchanges under another expert layout: what leaves a rank, over which tier, in how much time (R8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwprofiles import HardwareProfile
from replay.collectives import direct_all_to_all, ring_all_reduce
from replay.collectives._link import Link
from replay.collectives.deduplicating import exchange_time_ns
from replay.collectives.hierarchical import tier_nbytes, two_tier_time_ns
from replay.core.columns import Bool
from replay.graph.types import Graph
from replay.program.expert_side import ExpertSide
from replay.trace import MISSING


@dataclass(frozen=True, slots=True)
class Tiers:
    """Links inside a node and between nodes."""

    intra: Link
    inter: Link

    @staticmethod
    def of(profile: HardwareProfile | None) -> Tiers | None:
        """The links of a profile, ``None`` where it lacks one."""
        if profile is None:
            return None
        links = []
        for tier in ("intra", "inter"):
            bandwidth = profile.get(f"{tier}_node_bytes_per_s")
            if bandwidth is None:
                return None
            links.append(Link(bandwidth, profile.get(f"{tier}_node_latency_ns") or 0.0))
        return Tiers(*links)


@dataclass(frozen=True, slots=True)
class Envelope:
    """Latency and bandwidth read off the lower envelope of one collective's transfers, as the trace shows them."""

    link: Link
    sizes: int  # message sizes it rests on


def deduplicated_ns(side: ExpertSide, tiers: Tiers, token_nbytes: float = 1.0) -> float:
    """Time of a deduplicating exchange: max over tiers of tokens · copies · bytes / bandwidth, times the load."""
    size = (side.tokens or 1.0) * side.load * token_nbytes
    return float(exchange_time_ns(size, (side.copies_inside, side.remote_nodes), tiers.intra, tiers.inter))


def deduplicated_ratio(old: ExpertSide, new: ExpertSide, tiers: Tiers | None) -> float:
    """New over old time of a deduplicating exchange that stays on its tier; without links, copies alone.

    The bytes of a token cancel. On one node there are no remote copies, and those inside decide.
    """
    if tiers is not None:
        return deduplicated_ns(new, tiers) / deduplicated_ns(old, tiers)
    if old.remote_nodes > 0:
        return new.remote_nodes * new.load / (old.remote_nodes * old.load)
    return new.copies_inside * new.load / (old.copies_inside * old.load)


def flat_ns(side: ExpertSide, tiers: Tiers, nbytes: float) -> float:
    """Time of a flat all-to-all of ``nbytes`` a rank: the slower tier, times the load."""
    inside, outside = tier_nbytes(nbytes, side.ep, side.ranks_per_node)
    return side.load * float(two_tier_time_ns(inside, outside, tiers.intra, tiers.inter))


def flat_ratio(old: ExpertSide, new: ExpertSide, tiers: Tiers | None, nbytes: float, fit: Envelope | None) -> float:
    """New over old time of a flat all-to-all of ``nbytes`` a rank; bytes leaving a rank: S · (1 - 1/ep).

    With links: their time. Else with the trace's own latency and bandwidth. Else bytes alone.
    """
    if tiers is not None:
        return flat_ns(new, tiers, nbytes) / flat_ns(old, tiers, nbytes)
    after, before = (side.load * float(direct_all_to_all.sent_nbytes(nbytes, side.ep)) for side in (new, old))
    return float(fit.link.time_ns(after) / fit.link.time_ns(before)) if fit is not None else after / before


def leaves_node(side: ExpertSide) -> bool:
    """True where an expert group spans nodes."""
    return side.ep > side.ranks_per_node


def gradient_ratio(old: tuple[int, int], new: tuple[int, int]) -> float:
    """New over old time of the expert gradient exchange; each side is (local experts, ranks of the expert-data group).

    Ring: bytes scale with the local experts and with (n - 1) / n; 0 where the group shrinks to one rank.
    """
    after, before = (float(ring_all_reduce.sent_nbytes(local, ranks)) for local, ranks in (new, old))
    return after / before


def envelope(graph: Graph, ops: Bool) -> Envelope | None:
    """Latency + bandwidth from the shortest transfer of every message size, ``None`` with fewer than three sizes.

    Least squares over sizes; ``None`` also where the line does not rise or starts below zero.
    """
    known = ops & (graph.comm >= 0)
    known[known] = graph.comms.nbytes[graph.comm[known]] != MISSING
    nbytes = graph.comms.nbytes[graph.comm[known]].astype(np.float64)
    duration = graph.duration_ns[known].astype(np.float64)
    sizes = np.unique(nbytes)
    if len(sizes) < 3:
        return None
    shortest = np.array([duration[nbytes == size].min() for size in sizes])
    slope, latency = np.polyfit(sizes, shortest, 1)
    if slope <= 0 or latency < 0:
        return None
    return Envelope(Link(1e9 / float(slope), float(latency)), len(sizes))
