"""Direct all-to-all: every rank sends each peer its block, all at once; its own block stays."""

from __future__ import annotations

import numpy.typing as npt

from replay.collectives import point_to_point, ring_all_gather
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_TO_ALL,)

sent_nbytes = ring_all_gather.sent_nbytes
steps = point_to_point.steps


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """latency + S · (1 - 1/n) / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("direct_all_to_all", KINDS, steps, sent_nbytes),)
