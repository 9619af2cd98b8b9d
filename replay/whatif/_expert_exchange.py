"""Expert exchanges under another expert layout: what leaves a rank, over which tier, in how much time (R8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwprofiles import HardwareProfile
from replay.collectives import direct_all_to_all, ring_all_reduce
from replay.collectives._link import Link
from replay.collectives.deduplicating import exchange_time_ns
from replay.core.columns import Float64
from replay.program.expert_side import ExpertSide


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


def flat_factor(old: ExpertSide, new: ExpertSide, duration_ns: Float64, latency_ns: float) -> Float64:
    """New over old time of flat all-to-alls that took ``duration_ns``: messages to peers, then bytes.

    (ep - 1) messages of ``latency_ns`` each, the rest of the duration scales with the bytes that leave a rank,
    S · (1 - 1/ep).
    """
    entry = np.minimum((old.ep - 1) * latency_ns, duration_ns)
    after, before = (side.load * float(direct_all_to_all.sent_nbytes(1.0, side.ep)) for side in (new, old))
    later = entry * (new.ep - 1) / (old.ep - 1) + (duration_ns - entry) * after / before
    return np.asarray(later / np.maximum(duration_ns, 1.0))


def leaves_node(side: ExpertSide) -> bool:
    """True where an expert group spans nodes."""
    return side.ep > side.ranks_per_node


def gradient_ratio(old: tuple[int, int], new: tuple[int, int]) -> float:
    """New over old time of the expert gradient exchange; each side is (local experts, ranks of the expert-data group).

    Ring: bytes scale with the local experts and with (n - 1) / n; 0 where the group shrinks to one rank.
    """
    after, before = (float(ring_all_reduce.sent_nbytes(local, ranks)) for local, ranks in (new, old))
    return after / before
