"""Ring all-gather: every rank passes n - 1 blocks on."""

from __future__ import annotations

import numpy as np

from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_GATHER,)


def sent_nbytes(nbytes: Sizes, ranks: int) -> Float64:
    """S · (n - 1) / n bytes per rank, S = the gathered size (Thakur et al. 2005, section 4.1)."""
    return np.asarray(nbytes, dtype=np.float64) * (ranks - 1) / ranks


def time_ns(nbytes: Sizes, ranks: int, link: Link) -> Float64:
    """(n - 1) · latency + S · (n - 1) / n / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), messages=ranks - 1)
