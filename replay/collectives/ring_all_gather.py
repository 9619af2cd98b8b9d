"""Ring all-gather: every rank passes n - 1 blocks on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_GATHER,)


def steps(ranks: npt.ArrayLike) -> Float64:
    """n - 1."""
    return np.asarray(ranks, np.float64) - 1.0


def sent_nbytes(nbytes: Sizes, ranks: npt.ArrayLike) -> Float64:
    """S · (n - 1) / n bytes per rank, S = the gathered size (Thakur et al. 2005, section 4.1)."""
    n = np.asarray(ranks, np.float64)
    return np.asarray(np.asarray(nbytes, np.float64) * (n - 1.0) / n)


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """(n - 1) · latency + S · (n - 1) / n / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("ring_all_gather", KINDS, steps, sent_nbytes),)
