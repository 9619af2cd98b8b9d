"""Attention by hand arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from replay.core.columns import Float64
from replay.costs import attention
from replay.costs.attention import AttentionRates

RATES = AttentionRates(
    cores=1, floor_ns=0, flop_per_s=1e12, exponentials_per_s=1e30, bytes_per_s=1e30, backward_share=1.0, wave_share=0
)  # fmt: skip


def columns(**sizes: float) -> dict[str, Float64]:
    defaults = {
        "batch": 1, "seq": 1024, "kv_seq": 1024, "heads": 8, "kv_heads": 8, "head_dim": 128, "v_head_dim": 128,
        "causal": 0, "backward": 0,
    }  # fmt: skip
    return {name: np.array([float(value)]) for name, value in {**defaults, **sizes}.items()}


def test_forward_flops() -> None:
    """Two products: 2·8·1024²·(128 + 128)."""
    assert attention.flops(columns())[0] == 2 * 8 * 1024**2 * 256


def test_backward_has_five_products_for_two() -> None:
    assert attention.flops(columns(backward=1))[0] == 2.5 * attention.flops(columns())[0]


def test_a_causal_mask_leaves_the_half_and_the_blocks_of_the_diagonal() -> None:
    """1024²/2 pairs, and half a block of 128 for each of 1024 queries."""
    assert attention.pairs(columns(causal=1))[0] == 1024**2 / 2 + 1024 * 64


def test_one_query_sees_all_keys() -> None:
    assert attention.pairs(columns(seq=1, kv_seq=5000, causal=1))[0] == pytest.approx(5000)


def test_grouped_heads_share_keys_and_values() -> None:
    """8 query heads, 2 key-value heads: 16-bit q and o of 8 heads, k and v of 2."""
    assert attention.traffic_nbytes(columns(kv_heads=2))[0] == 2 * (8 + 2) * 1024 * 256


def test_latent_heads_have_two_sizes() -> None:
    """MLA: queries and keys of 192, values of 128."""
    assert attention.flops(columns(head_dim=192))[0] == 2 * 8 * 1024**2 * 320


def test_time_is_flops_over_rate() -> None:
    assert attention.columns_ns(RATES, columns())[0] == pytest.approx(2 * 8 * 1024**2 * 256 / 1e3, rel=1e-6)
