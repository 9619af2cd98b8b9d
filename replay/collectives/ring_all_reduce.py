"""Ring all-reduce: reduce-scatter, then all-gather."""

from __future__ import annotations

from replay.collectives._link import Link, Sizes
from replay.collectives.ring_all_gather import sent_nbytes as gathered_nbytes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_REDUCE,)


def sent_nbytes(nbytes: Sizes, ranks: int) -> Float64:
    """2 · S · (n - 1) / n bytes per rank (Thakur et al. 2005, section 4.5)."""
    return 2.0 * gathered_nbytes(nbytes, ranks)


def time_ns(nbytes: Sizes, ranks: int, link: Link) -> Float64:
    """2 · (n - 1) · latency + 2 · S · (n - 1) / n / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), messages=2 * (ranks - 1))
