"""Pairwise all-to-all: n - 1 steps, in step i rank r exchanges its block with rank r xor i (or r ± i)."""

from __future__ import annotations

import numpy.typing as npt

from replay.collectives import ring_all_gather
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_TO_ALL,)

sent_nbytes = ring_all_gather.sent_nbytes
steps = ring_all_gather.steps


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """(n - 1) · latency + S · (1 - 1/n) / bandwidth (Thakur et al. 2005, section 4.6)."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("pairwise_all_to_all", KINDS, steps, sent_nbytes),)
