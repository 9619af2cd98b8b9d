"""The tile model by hand arithmetic, on devices that have only the effect in question."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.costs import gemm, moe
from replay.costs.engine import Engine
from replay.costs.gemm import Precision
from replay.costs.moe import Moved

IDEAL = Engine(
    cores=100, flop_per_s=1e14, bytes_per_s=1e15, l2_bytes_per_s=1e30, floor_ns=0, tile_ns=0, epilogue_share=0,
    split_ns=1e9, reduce_ns=1e9, wave_share=1, ramp_tiles=0, sustained=0,
)  # fmt: skip
HALF = Precision()


def test_a_last_wave_costs_a_whole_one() -> None:
    """25601 rows in tiles of 16 x 64: 3202 tiles on 100 cores are 33 waves, of 25600 rows 32; spread evenly 32.02."""
    waves, even = (replace(IDEAL, wave_share=share) for share in (1.0, 0.0))
    full, more, spread = (
        gemm.time_ns(m, 128, 4096, HALF, e) for m, e in ((25600, waves), (25601, waves), (25601, even))
    )
    assert more / full == pytest.approx(33 / 32, rel=1e-3)
    assert spread / full == pytest.approx(3202 / 3200, rel=1e-3)


def test_full_waves_reach_the_peak() -> None:
    """2·25600·128·4096 FLOP at 1e14 FLOP/s."""
    assert gemm.time_ns(25600, 128, 4096, HALF, IDEAL) == pytest.approx(2 * 25600 * 128 * 4096 / 1e14 * 1e9, rel=1e-3)


def test_a_small_output_with_a_long_k_is_split() -> None:
    """128 x 128: 16 tiles of 16 x 64 keep 16 of 100 cores busy; with free slices of K all are."""
    free = replace(IDEAL, split_ns=1e-3, reduce_ns=1e-9)
    whole, split = (gemm.time_ns(128, 128, 65536, HALF, engine) for engine in (IDEAL, free))
    assert whole / split == pytest.approx(100 / 16, rel=1e-3)


def test_long_kernels_run_at_the_sustained_clock() -> None:
    """2·25600·12800·2304 FLOP at 1e14 FLOP/s are 15.1 ms; with exponent 0.25: (1 + 15.1)^0.25 = 2.003."""
    time, slowed = (gemm.time_ns(25600, 12800, 2304, HALF, replace(IDEAL, sustained=s)) for s in (0.0, 0.25))
    assert slowed / time == pytest.approx(2.003, rel=1e-3)


def test_narrow_inputs_pay_their_conversion() -> None:
    """1000 x 2000 elements at 0.001 ns."""
    fp8 = Precision(1, 2, right_nbytes=1)
    plain, cast = (gemm.time_ns(1000, 128, 2000, fp8, replace(IDEAL, cast_ns=ns)) for ns in (0.0, 1e-3))
    assert cast - plain == pytest.approx(2000.0)


def test_ragged_rows_cost_extra_where_the_kernel_says_so() -> None:
    """Block-scaled, 129 rows: the second row tile has one row; with share 1 almost one more wave of its tiles."""
    block = Precision(1, 2, right_nbytes=1, scale_block=128)
    even, ragged = (gemm.time_ns(129, 1280, 4096, block, replace(IDEAL, ragged_share=share)) for share in (0.0, 1.0))
    assert ragged / even == pytest.approx(1 + 127 / 128)


def test_time_grows_with_every_size() -> None:
    engine = Engine(132, 8.5e14, 2.8e12, 1.7e13)
    sizes = np.array([64, 256, 1024, 4096, 16384])
    for m, n, k in ((sizes, 4096, 4096), (4096, sizes, 4096), (4096, 4096, sizes)):
        assert (np.diff(gemm.time_ns(m, n, k, HALF, engine)) > 0).all()


def test_expert_weights_are_read_once_per_used_expert() -> None:
    """One token to 2 of 4 experts, 1 byte a ns: gate, up and down of both, 1024² elements of 2 bytes each."""
    columns = {
        name: np.array([float(value)])
        for name, value in {
            "tokens": 1, "hidden": 1024, "inter": 1024, "topk": 2, "experts": 4, "moe_tp": 1, "moe_ep": 1, "skew": 0,
            "left_nbytes": 2, "right_nbytes": 2,
        }.items()
    }  # fmt: skip
    slow = replace(IDEAL, bytes_per_s=1e9, flop_per_s=1e18)
    weights = 2 * 3 * 1024 * 1024 * 2
    assert moe.columns_ns(slow, Moved(0.0, 0.0), columns)[0] == pytest.approx(weights, rel=0.01)
