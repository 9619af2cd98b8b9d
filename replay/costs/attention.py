"""Attention over blocks of queries and keys without writing scores (Dao et al. 2022, "FlashAttention").

time = floor + max~(waves · block time, traffic / bandwidth). Forward multiplies q·kᵀ and p·v: 2·pairs·(d + d_v)
operations a head; backward five products, 2·pairs·(3·d + 2·d_v) (Dao 2023, section 3.1). Softmax takes one exponential
a pair on other units, forward and, recomputed, backward. Grouped and latent heads share keys and values: that changes
traffic, not arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.cost_model import Columns, CostModel, ParameterSpec, Values, largest_decade
from replay.costs.tiles import smooth_max

QUERIES = 128.0
"""Queries of one block (FlashAttention-2 and 3 use 64 to 192)."""

_NBYTES = 2.0  # 16-bit operands
_BACKWARD_PASSES = 2.5  # over q, k, v, o and their gradients, relative to one pass over q, k, v, o


@dataclass(frozen=True, slots=True)
class AttentionRates:
    """``exponentials_per_s``: softmax; ``backward_share``: matrix rate of backward kernels relative to forward."""

    cores: float
    floor_ns: float
    flop_per_s: float
    exponentials_per_s: float
    bytes_per_s: float
    backward_share: float
    wave_share: float


def pairs(columns: Columns) -> Float64:
    """Query-key pairs of one head: all, or with a causal mask those up to the diagonal, whose blocks count whole.

    Queries are the last ones of the keys: S_q·S_k - S_q²/2 + S_q·block/2, at most S_q·S_k.
    """
    queries, keys = columns["seq"], columns["kv_seq"]
    square = queries * keys
    below = square - queries * queries / 2.0 + queries * QUERIES / 2.0
    return np.asarray(np.where(columns["causal"] > 0, np.minimum(square, below), square))


def flops(columns: Columns) -> Float64:
    """Operations of the matrix products over all heads of the batch, forward or backward."""
    d, d_v = columns["head_dim"], columns["v_head_dim"]
    products = np.where(columns["backward"] > 0, 3.0 * d + 2.0 * d_v, d + d_v)
    return np.asarray(2.0 * columns["batch"] * columns["heads"] * pairs(columns) * products)


def traffic_nbytes(columns: Columns) -> Float64:
    """q and output of every head, keys and values of every key-value head; 2.5 times as much backward."""
    d, d_v = columns["head_dim"], columns["v_head_dim"]
    queries = columns["heads"] * columns["seq"] * (d + d_v)
    keys = columns["kv_heads"] * columns["kv_seq"] * (d + d_v)
    once = _NBYTES * columns["batch"] * (queries + keys)
    return np.asarray(once * np.where(columns["backward"] > 0, _BACKWARD_PASSES, 1.0))


def columns_ns(rates: AttentionRates, columns: Columns) -> Float64:
    """Time from size columns (:mod:`replay.samples`), ns."""
    heads = columns["batch"] * columns["heads"]
    rate = rates.flop_per_s * np.where(columns["backward"] > 0, rates.backward_share, 1.0)
    products = flops(columns) / rate
    softmax = heads * pairs(columns) / rates.exponentials_per_s
    blocks = np.maximum(heads * np.ceil(columns["seq"] / QUERIES), 1.0)
    even = np.where(columns["seq"] < QUERIES, blocks * np.ceil(columns["kv_seq"] / QUERIES), blocks) / rates.cores
    waves = rates.wave_share * np.ceil(even) + (1.0 - rates.wave_share) * np.maximum(even, 1.0)
    arithmetic = NS_PER_S * (products + softmax) * waves / even
    return np.asarray(rates.floor_ns + smooth_max(arithmetic, NS_PER_S * traffic_nbytes(columns) / rates.bytes_per_s))


def _predict(values: Values, columns: Columns) -> Float64:
    return columns_ns(AttentionRates(**{f.name: values[f.name] for f in fields(AttentionRates)}), columns)


COST_MODELS = (
    CostModel(
        name="attention",
        ops=("attention",),
        needs=("batch", "seq", "kv_seq", "heads", "kv_heads", "head_dim", "v_head_dim", "causal", "backward"),
        parameters=(
            ParameterSpec("cores", "1", 100.0, 1.0, 1e6, given=True, profile="cores"),
            ParameterSpec("floor_ns", "ns", 5000.0, 1.0, 1e6, optional=True),
            ParameterSpec("flop_per_s", "FLOP/s", 3e14, 1e11, 1e17, profile="{dtype}_flop_per_s"),
            ParameterSpec("exponentials_per_s", "1/s", 1e13, 1e10, 1e16, optional=True),
            ParameterSpec("bytes_per_s", "B/s", 2e12, 1e10, 1e14, optional=True, profile="hbm_bytes_per_s"),
            ParameterSpec("backward_share", "1", 0.8, 0.05, 5.0, optional=True),
            ParameterSpec("wave_share", "1", 0.5, 0.0, 1.0, log=False, optional=True),
        ),
        predict=_predict,
        calibrated=("batch", "seq", "heads", "head_dim"),
        holdouts=(largest_decade("seq"),),
    ),
)
