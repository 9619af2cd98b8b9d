"""Hierarchical all-to-all: traffic split by tier; both tiers work at once, so the slower one decides."""

from __future__ import annotations

import numpy as np

from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_TO_ALL,)


def tier_nbytes(nbytes: Sizes, ranks: int, devices_per_node: int) -> tuple[Float64, Float64]:
    """Bytes a rank sends inside its node and to other nodes: S · (d - 1) / n and S · (n - d) / n, d = ranks a node."""
    size = np.asarray(nbytes, dtype=np.float64)
    local = min(devices_per_node, ranks)
    return size * (local - 1) / ranks, size * (ranks - local) / ranks


def two_tier_time_ns(inside: Sizes, outside: Sizes, intra: Link, inter: Link) -> Float64:
    """max(inside / intra, outside / inter), each with its latency."""
    return np.maximum(intra.time_ns(inside), inter.time_ns(outside))


def time_ns(nbytes: Sizes, ranks: int, link: Link, *, inter: Link | None = None, devices_per_node: int = 0) -> Float64:
    """Time over two tiers; without a second link all ranks are on one node."""
    if inter is None or devices_per_node <= 0:
        devices_per_node = ranks
    inside, outside = tier_nbytes(nbytes, ranks, devices_per_node)
    return two_tier_time_ns(inside, outside, link, inter or link)
