"""All-gather, reduce-scatter and all-to-all over a full mesh: one direct step, every pair link carries S / n."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.collectives import point_to_point
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_TO_ALL)

steps = point_to_point.steps


def sent_nbytes(nbytes: Sizes, ranks: npt.ArrayLike) -> Float64:
    """S / n bytes per pair link, S = the whole buffer; 0 for a lone rank."""
    n = np.asarray(ranks, np.float64)
    return np.where(n > 1, np.asarray(nbytes, np.float64) / n, 0.0)


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """latency + S / n / bandwidth, ``link`` = one pair of ranks."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("mesh_exchange", KINDS, steps, sent_nbytes),)
