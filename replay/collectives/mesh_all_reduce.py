"""All-reduce over a full mesh (HCCL inside an Ascend server): direct reduce-scatter, then direct all-gather.

Every rank has a link of its own to each peer and uses all of them at once, so the bandwidth of a rank grows with the
group: in each of the two steps every pair link carries S / n.
"""

from __future__ import annotations

import numpy.typing as npt

from replay.collectives import mesh_exchange
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_REDUCE,)


def steps(ranks: npt.ArrayLike) -> Float64:
    """2; 0 for a lone rank."""
    return 2.0 * mesh_exchange.steps(ranks)


def sent_nbytes(nbytes: Sizes, ranks: npt.ArrayLike) -> Float64:
    """2 · S / n bytes per pair link; 0 for a lone rank."""
    return 2.0 * mesh_exchange.sent_nbytes(nbytes, ranks)


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """2 · latency + 2 · S / n / bandwidth, ``link`` = one pair of ranks."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("mesh_all_reduce", KINDS, steps, sent_nbytes),)
