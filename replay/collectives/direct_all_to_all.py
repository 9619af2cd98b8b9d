"""Direct all-to-all: every rank sends each peer its block, its own block stays."""

from __future__ import annotations

import numpy as np

from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_TO_ALL,)


def sent_nbytes(nbytes: Sizes, ranks: int) -> Float64:
    """S · (1 - 1/n) bytes per rank, S = the whole buffer, balanced."""
    return np.asarray(nbytes, dtype=np.float64) * (1.0 - 1.0 / ranks)


def time_ns(nbytes: Sizes, ranks: int, link: Link) -> Float64:
    """(n - 1) · latency + S · (1 - 1/n) / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), messages=ranks - 1)
