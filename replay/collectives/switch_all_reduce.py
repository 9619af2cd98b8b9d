"""All-reduce inside the switch (NVLink SHARP): the switch adds the ranks' parts and multicasts the sum.

Each rank's buffer is read once by the switch (S), and each rank writes the n-th part it is in charge of once, which the
switch copies to all (S / n): S · (1 + 1/n) per rank and direction, whatever the number of ranks, in two steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_REDUCE,)


def steps(ranks: npt.ArrayLike) -> Float64:
    """2, reduce and multicast; 0 for a lone rank."""
    return np.where(np.asarray(ranks) > 1, 2.0, 0.0)


def sent_nbytes(nbytes: Sizes, ranks: npt.ArrayLike) -> Float64:
    """S · (1 + 1/n) bytes per rank; 0 for a lone rank."""
    n = np.asarray(ranks, np.float64)
    return np.where(n > 1, np.asarray(nbytes, np.float64) * (1.0 + 1.0 / n), 0.0)


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """2 · latency + S · (1 + 1/n) / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("switch_all_reduce", KINDS, steps, sent_nbytes),)
