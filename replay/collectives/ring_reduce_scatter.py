"""Ring reduce-scatter: an all-gather run backwards."""

from __future__ import annotations

import numpy.typing as npt

from replay.collectives import ring_all_gather
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.REDUCE_SCATTER,)

sent_nbytes = ring_all_gather.sent_nbytes
steps = ring_all_gather.steps


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """(n - 1) · latency + S · (n - 1) / n / bandwidth, S = the size before scattering (Thakur et al. 2005, 4.2)."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("ring_reduce_scatter", KINDS, steps, sent_nbytes),)
