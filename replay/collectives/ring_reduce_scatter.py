"""Ring reduce-scatter: an all-gather run backwards."""

from __future__ import annotations

from replay.collectives._link import Link, Sizes
from replay.collectives.ring_all_gather import sent_nbytes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.REDUCE_SCATTER,)


def time_ns(nbytes: Sizes, ranks: int, link: Link) -> Float64:
    """(n - 1) · latency + S · (n - 1) / n / bandwidth, S = the size before scattering (Thakur et al. 2005, 4.2)."""
    return link.time_ns(sent_nbytes(nbytes, ranks), messages=ranks - 1)
