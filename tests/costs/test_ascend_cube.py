"""The cube unit by hand arithmetic."""

from __future__ import annotations

import pytest

from replay.costs import ascend_cube, gemm
from replay.costs.engine import Engine
from replay.costs.gemm import Precision

HALF = Precision()
ENGINE = Engine(cores=24, flop_per_s=3e14, bytes_per_s=1.2e12, l2_bytes_per_s=4.9e12)


def test_peak_of_a_910b1() -> None:
    """24 cores at 1.85 GHz: 363.7 TFLOP/s in BF16, twice that in INT8 (CANN platform_config)."""
    assert ascend_cube.peak_op_per_s(2.0, 24, 1.85e9) == pytest.approx(363.7e12, rel=1e-3)
    assert ascend_cube.peak_op_per_s(1.0, 24, 1.85e9) == pytest.approx(727.4e12, rel=1e-3)


def test_sizes_fill_whole_cubes() -> None:
    """16-bit: multiples of 16; 8-bit: n in multiples of 32."""
    assert ascend_cube.filled((1, 17, 33), 2.0) == (16, 32, 48)
    assert ascend_cube.filled((1, 17, 33), 1.0) == (16, 32, 48)
    assert ascend_cube.filled((1, 33, 33), 1.0) == (16, 64, 48)


def test_a_row_moves_in_whole_blocks() -> None:
    """256 elements of 2 bytes are one block; 257 need two (514 of 1024 bytes)."""
    assert ascend_cube.aligned_share(256, 2.0) == 1.0
    assert ascend_cube.aligned_share(257, 2.0) == pytest.approx(514 / 1024)


def test_an_aligned_gemm_takes_what_the_tile_model_says() -> None:
    assert ascend_cube.time_ns(4096, 4096, 4096, HALF, ENGINE) == gemm.time_ns(4096, 4096, 4096, HALF, ENGINE)


def test_an_unaligned_memory_bound_gemm_is_slower() -> None:
    """16 rows: weights decide, and rows of 4097 elements fill 8194 of 8704 bytes."""
    even, odd = (ascend_cube.time_ns(16, n, 4096, HALF, ENGINE) for n in (4096, 4097))
    assert odd > even * 1.03


def test_cube_and_vector_work_at_once_where_pipelined() -> None:
    assert ascend_cube.fused_ns(100, 40) == 100
    assert ascend_cube.fused_ns(100, 40, pipelined=False) == 140
