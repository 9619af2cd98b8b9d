"""Double binary tree all-reduce: half of the buffer goes up and down each of two complementary trees.

Every rank is a leaf of one tree and inner in the other, so all links carry the same: the latency of a tree at the
bandwidth of a ring (Sanders, Speck and Träff 2009; NCCL since 2.4).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.collectives import ring_all_reduce
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_REDUCE,)

sent_nbytes = ring_all_reduce.sent_nbytes


def steps(ranks: npt.ArrayLike) -> Float64:
    """2 · ceil(log2 n): up, and down again."""
    return 2.0 * np.ceil(np.log2(np.asarray(ranks, np.float64)))


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """2 · ceil(log2 n) · latency + 2 · S · (n - 1) / n / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("tree_all_reduce", KINDS, steps, sent_nbytes),)
