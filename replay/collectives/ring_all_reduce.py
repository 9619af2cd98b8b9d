"""Ring all-reduce: reduce-scatter, then all-gather."""

from __future__ import annotations

import numpy.typing as npt

from replay.collectives import ring_all_gather
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_REDUCE,)


def steps(ranks: npt.ArrayLike) -> Float64:
    """2 · (n - 1)."""
    return 2.0 * ring_all_gather.steps(ranks)


def sent_nbytes(nbytes: Sizes, ranks: npt.ArrayLike) -> Float64:
    """2 · S · (n - 1) / n bytes per rank (Thakur et al. 2005, section 4.5)."""
    return 2.0 * ring_all_gather.sent_nbytes(nbytes, ranks)


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """2 · (n - 1) · latency + 2 · S · (n - 1) / n / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("ring_all_reduce", KINDS, steps, sent_nbytes),)
