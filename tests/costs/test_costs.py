"""Costs by hand arithmetic on a device of 1 TFLOP/s and 1 GB/s (1 byte a ns, 1000 FLOP a ns)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.costs import gemm, grouped_gemm, memory_bound
from replay.costs.engine import Engine
from replay.costs.gemm import Precision
from replay.costs.grouped_gemm import ExpertMatrix

ENGINE = Engine(
    cores=1, flop_per_s=1e12, bytes_per_s=1e9, l2_bytes_per_s=1e30, floor_ns=0, tile_ns=0, epilogue_share=0,
    split_ns=0, reduce_ns=0, wave_share=0, ramp_tiles=0, sustained=0,
)  # fmt: skip
BYTE = Precision(input_nbytes=1, output_nbytes=1)


def test_gemm_flops_and_traffic() -> None:
    """(2, 3) x (3, 4): 48 FLOP; 6 + 12 bytes in, 8 out."""
    assert gemm.flops(2, 4, 3) == 48
    assert gemm.traffic_nbytes(2, 4, 3, BYTE) == 26


def test_an_accumulating_gemm_moves_its_result_twice() -> None:
    """6 + 12 bytes in, 8 FP32 results read and written."""
    assert gemm.traffic_nbytes(2, 4, 3, Precision(1, 4, accumulates=True)) == 18 + 2 * 8 * 4


def test_more_experts_at_equal_rows_read_more_weights() -> None:
    """Memory-bound, 8 rows: 1 expert 8·(10+10) + 100 bytes, 4 experts 160 + 400."""
    weight = ExpertMatrix(10, 10)
    assert grouped_gemm.fused_ns([8], weight, BYTE, ENGINE) == pytest.approx(260, rel=1e-3)
    assert grouped_gemm.fused_ns([2, 2, 2, 2], weight, BYTE, ENGINE) == pytest.approx(560, rel=1e-3)


def test_separate_kernels_pay_the_floor_each() -> None:
    weight = ExpertMatrix(10, 10)
    assert grouped_gemm.separate_ns([2, 2, 2, 2], weight, BYTE, replace(ENGINE, floor_ns=50)) == pytest.approx(
        560 + 4 * 50, rel=1e-3
    )


def test_weight_gradients_are_written_per_expert() -> None:
    """Two experts, 3 rows each, (2, 4): 2·3·(…)= in 3·(2+4) = 18, out 8 bytes, each."""
    assert grouped_gemm.weight_gradient_ns([3, 3], ExpertMatrix(2, 4), BYTE, ENGINE) == pytest.approx(2 * 26, rel=1e-3)


def test_compute_bound_experts_take_what_their_flops_take() -> None:
    """DeepSeek-V3 on H800: 4 x 8192 or 8 x 4096 rows of (7168, 4096), 1.92 TFLOP either way, 0.972 ms at FP8 peak."""
    engine = replace(ENGINE, flop_per_s=1979e12, bytes_per_s=3.4e12)
    weight, fp8 = ExpertMatrix(7168, 4096), Precision(1, 2)
    for rows in ([8192] * 4, [4096] * 8):
        assert grouped_gemm.fused_ns(rows, weight, fp8, engine) == pytest.approx(
            2 * 32768 * 7168 * 4096 / 1979e12 * 1e9, rel=0.01
        )


def test_operands_that_fit_the_cache_move_at_its_rate() -> None:
    """A hundredth of the cache: hit 0.9999, so 1000 bytes at 10 bytes a ns; a hundred times it: at memory's 1."""
    rates = {"floor_ns": 0.0, "bytes_per_s": 1e9, "l2_nbytes": 1e5, "l2_bytes_per_s": 1e10}
    small, large = (
        memory_bound.cached_ns(rates, {"read_nbytes": np.array([n / 2]), "written_nbytes": np.array([n / 2])})[0]
        for n in (1e3, 1e7)
    )
    assert small == pytest.approx(100, rel=1e-3)
    assert large == pytest.approx(1e7, rel=1e-3)
