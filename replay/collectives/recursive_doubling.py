"""All-gather by recursive doubling, reduce-scatter by recursive halving: ceil(log2 n) steps, the bytes of a ring."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.collectives import ring_all_gather
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER)

sent_nbytes = ring_all_gather.sent_nbytes


def steps(ranks: npt.ArrayLike) -> Float64:
    """ceil(log2 n)."""
    return np.ceil(np.log2(np.asarray(ranks, np.float64)))


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """ceil(log2 n) · latency + S · (n - 1) / n / bandwidth (Thakur et al. 2005, sections 4.1 and 4.2; NCCL's PAT)."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("recursive_doubling", KINDS, steps, sent_nbytes),)
