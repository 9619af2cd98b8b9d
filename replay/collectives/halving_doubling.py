"""Recursive halving-doubling: logarithmically many steps, each with half or twice the bytes of the one before.

An all-gather doubles what a rank holds in every step, a reduce-scatter halves it, an all-reduce is one after the other
(Thakur et al. 2005, sections 4.1, 4.2 and 4.5; HCCL's ``H-D_R`` between servers). Where n is no power of two, the ranks
beyond the largest power first fold their whole buffer into a partner and get the result back afterwards.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.collectives import ring_all_reduce
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.ALL_REDUCE,)


def steps(ranks: npt.ArrayLike) -> Float64:
    """2 · floor(log2 n), and two more where n is no power of two."""
    n = np.asarray(ranks, np.float64)
    return 2.0 * np.floor(np.log2(n)) + 2.0 * _is_uneven(n)


def sent_nbytes(nbytes: Sizes, ranks: npt.ArrayLike) -> Float64:
    """2 · S · (p - 1) / p with p the largest power of two up to n, and S to fold and again S to return beyond it."""
    n = np.asarray(ranks, np.float64)
    inner = ring_all_reduce.sent_nbytes(nbytes, 2.0 ** np.floor(np.log2(n)))
    return np.asarray(inner + 2.0 * np.asarray(nbytes, np.float64) * _is_uneven(n))


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """steps · latency + sent / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


def _is_uneven(n: Float64) -> Float64:
    """1 where n is no power of two."""
    return np.where(np.log2(n) % 1.0 > 0, 1.0, 0.0)
