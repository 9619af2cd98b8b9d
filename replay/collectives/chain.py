"""Broadcast and reduce along a chain, pipelined in pieces: every rank passes the whole buffer on once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.collectives import ring_all_gather
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.BROADCAST, CollectiveKind.REDUCE)

steps = ring_all_gather.steps


def sent_nbytes(nbytes: Sizes, ranks: npt.ArrayLike) -> Float64:
    """S bytes per rank; 0 for a lone rank."""
    return np.where(np.asarray(ranks) > 1, np.asarray(nbytes, np.float64), 0.0)


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """(n - 1) · latency + S / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("chain", KINDS, steps, sent_nbytes),)
