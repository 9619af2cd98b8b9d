"""What expert dispatch and combine kernels share: copies over the links, and work of the cores that move them."""

from __future__ import annotations

from functools import cache

import numpy as np

from replay.collectives.deduplicating import Router, distinct_parts
from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.cost_model import Columns, ParameterSpec


def link_and_cores_ns(link_nbytes: Float64, link_bytes_per_s: float, cores_ns: Float64, sharpness: float) -> Float64:
    """(link^q + cores^q)^(1/q): the slower of the two, and more than either where they are alike."""
    link_ns = link_nbytes * NS_PER_S / link_bytes_per_s
    q = 1.0 + sharpness
    longest = np.maximum(np.maximum(link_ns, cores_ns), np.finfo(np.float64).tiny)
    return np.asarray(longest * ((link_ns / longest) ** q + (cores_ns / longest) ** q) ** (1.0 / q))


def distinct_ranks(columns: Columns) -> Float64:
    """Ranks that a token goes to, its own included, when routing is balanced: one copy each."""
    sizes = np.stack([columns["topk"], columns["experts"], columns["ranks"]], axis=1)
    rows, index = np.unique(sizes, axis=0, return_inverse=True)
    return np.array([_distinct(int(k), int(experts), int(ranks)) for k, experts, ranks in rows])[index.ravel()]


@cache
def _distinct(topk: int, experts: int, ranks: int) -> float:
    return distinct_parts(Router(experts, topk), ranks)


FLOOR = ParameterSpec("floor_ns", "ns", 1e4, 1.0, 1e7)
LINK = ParameterSpec("link_bytes_per_s", "B/s", 2e11, 1e8, 1e14)
CORE = ParameterSpec("core_bytes_per_s", "B/s", 1e10, 1e6, 1e13)
SHARPNESS = ParameterSpec("sharpness", "1", 2.0, 0.05, 30.0, optional=True)
