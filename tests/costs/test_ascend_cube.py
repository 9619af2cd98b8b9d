"""The cube unit by hand arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import hwprofiles
from hwprofiles.schema import HardwareProfile
from replay.core.dtypes import matrix_elements
from replay.core.evidence import Grade
from replay.costs import ascend_cube, gemm
from replay.costs.ascend_cube import CUBES
from replay.costs.engine import SUSTAINED_SHARE, Engine, engine_of
from replay.costs.gemm import Precision
from replay.costs.tiles import Problem, chosen

HALF = Precision()
ENGINE = Engine(cores=24, flop_per_s=3e14, bytes_per_s=1.2e12, l2_bytes_per_s=4.9e12, wave_share=1.0, cube_side=16)
ASCEND = [profile for profile in map(hwprofiles.load, hwprofiles.names()) if profile.get("cube_side")]


def problem(m: float, n: float, k: float, nbytes: float = 2.0) -> Problem:
    """One product with elements of ``nbytes`` bytes, every operand moved once."""
    one = np.ones(1)
    size = nbytes * (m * k + k * n + m * n)
    return Problem(
        m * one[:, None], one[:, None], n * one, k * one, nbytes * one, nbytes * one, nbytes * one, size * one
    )


@pytest.mark.parametrize(("dtype", "tflops"), [("bf16", 363.7), ("int8", 727.4), ("tf32", 181.9), ("fp32", 90.9)])
def test_peak_of_a_910b1(dtype: str, tflops: float) -> None:
    """24 cores at 1.85 GHz: 363.7 TFLOP/s in BF16 (CANN platform_config), twice that in INT8, a quarter in FP32."""
    assert CUBES[dtype].peak_flop_per_s(24, 1.85e9) == pytest.approx(tflops * 1e12, rel=1e-3)


@pytest.mark.parametrize("profile", ASCEND, ids=lambda profile: profile.name)
def test_peaks_of_profiles_are_those_of_their_cubes(profile: HardwareProfile) -> None:
    """Within 4 %: the 910C's printed peak counts a core more than can be used."""
    cores, clock = profile.get("cores"), profile.get("clock_hz")
    if cores is not None and clock is not None:
        for dtype, name in (("bf16", "bf16_flop_per_s"), ("int8", "int8_op_per_s"), ("fp32", "fp32_flop_per_s")):
            told = profile.get(name)
            assert told is None or told == pytest.approx(CUBES[dtype].peak_flop_per_s(cores, clock), rel=0.04)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("bf16", (16, 32, 48)), ("int8", (16, 32, 64)), ("int4", (16, 32, 64)), ("fp32", (16, 32, 40))],
)
def test_sizes_fill_whole_cubes(dtype: str, expected: tuple[int, int, int]) -> None:
    """m and n to multiples of 16, k to 32 bytes: 16, 32, 64 and 8 elements (m = 1, n = 17, k = 33)."""
    assert tuple(map(float, CUBES[dtype].filled(1, 17, 33))) == expected


@pytest.mark.parametrize(("row", "moved"), [(512, 512), (256, 256), (768, 768), (514, 1024), (8194, 8704), (100, 100)])
def test_a_row_moves_in_whole_bursts(row: int, moved: int) -> None:
    """Multiples of 256 B as they are, others in bursts of 512 B; what is shorter shares one with its neighbours."""
    assert ascend_cube.moved_nbytes(row) == moved


def test_a_problem_is_filled_up_as_the_cube_does_it() -> None:
    """(100, 1000, 500) in BF16: 112 x 1008 x 512; rows of 1000, 2000 and 2000 B move 1024, 2048 and 2048."""
    whole = ascend_cube.filled(problem(100, 1000, 500))
    assert (float(whole.rows[0, 0]), float(whole.n[0]), float(whole.k[0])) == (112, 1008, 512)
    assert float(whole.nbytes[0]) == pytest.approx(100 * 1024 + 500 * 2048 + 100 * 2048)


def test_one_row_costs_the_cube_as_much_as_sixteen() -> None:
    """Computation alone: 24 cores, endless memory."""
    fast = Engine(cores=24, flop_per_s=3e14, bytes_per_s=1e18, l2_bytes_per_s=1e18, cube_side=16)
    one, sixteen, more = (float(gemm.time_ns(m, 4096, 4096, HALF, fast)) for m in (1, 16, 17))
    assert one == pytest.approx(sixteen)
    assert more > sixteen


@pytest.mark.parametrize("rows", [16, 32, 64, 128])
def test_few_rows_get_a_tile_of_as_many(rows: int) -> None:
    """Higher tiles would load as much and multiply what is not there."""
    found = [chosen(problem(rows, n, 4096), ascend_cube.TILES, ENGINE) for n in (4096, 9216)]
    assert all(float(height[0]) <= rows for height, _ in found)


def test_an_unaligned_memory_bound_gemm_is_slower() -> None:
    """16 rows: weights decide, and rows of 4097 elements move 8704 bytes for 8194."""
    even, odd = (float(gemm.time_ns(16, n, 4096, HALF, ENGINE)) for n in (4096, 4097))
    assert odd > even * 1.03


def test_a_large_gemm_comes_near_the_rate_of_the_cubes() -> None:
    """8192³ in 3.67 ms at 3e14: whole waves of blocks and writing them take at most a seventh more."""
    least = 2 * 8192**3 / 3e14 * 1e9
    assert least < float(gemm.time_ns(8192, 8192, 8192, HALF, ENGINE)) < 1.15 * least


@pytest.mark.parametrize("profile", ASCEND, ids=lambda profile: profile.name)
def test_every_ascend_profile_gives_an_engine_of_cubes(profile: HardwareProfile) -> None:
    found = engine_of(profile, "bf16")
    assert found is not None
    assert found.engine.cube_side == 16
    assert found.engine.flop_per_s == profile.value("bf16_flop_per_s")


def test_an_engine_is_known_as_well_as_the_weakest_number_it_is_made_of() -> None:
    """The bandwidth of a 910B2 is assumed, that of a 910B1 a public figure."""
    grades = [engine_of(hwprofiles.load(name), "bf16") for name in ("ascend-910b2", "ascend-910b1")]
    assert [found.grade for found in grades if found] == [Grade.ASSUMED, Grade.DATASHEET]


@pytest.mark.parametrize(
    ("name", "tflops", "grade"),
    [
        ("a100-sxm-80gb", 156.0, Grade.DATASHEET),
        ("h100-sxm", 494.5, Grade.DATASHEET),
        ("mi300x", 653.7, Grade.DATASHEET),
        ("ascend-910b1", 181.9, Grade.ASSUMED),  # counted, not printed
    ],
)
def test_hf32_is_tf32_on_gpus(name: str, tflops: float, grade: Grade) -> None:
    """Peaks of NVIDIA's and AMD's data sheets, dense; sustained at 0.88 of them except on cubes."""
    found = engine_of(hwprofiles.load(name), "hf32")
    assert found is not None
    share = 1.0 if found.engine.cube_side else SUSTAINED_SHARE
    assert found.engine.flop_per_s == pytest.approx(share * tflops * 1e12, rel=1e-3)
    assert found.grade == grade


@pytest.mark.parametrize(
    ("name", "dtype", "low", "high"),
    [
        ("ascend-910b2", "bf16", 328.0, 328.0),  # a 910B whose bin is not printed (limulidae)
        ("ascend-910b2", "fp32", 87.0, 87.0),
        ("ascend-910c-die", "int8", 0.774 * 752, 0.827 * 752),  # CloudMatrix384, tables 8 to 10
    ],
)
def test_large_products_come_within_an_eighth_of_published_rates(
    name: str, dtype: str, low: float, high: float
) -> None:
    """8192³, TFLOP/s."""
    found = engine_of(hwprofiles.load(name), dtype)
    elements = matrix_elements(dtype)
    assert found is not None
    assert elements is not None
    precision = Precision(elements.left, elements.output)
    rate = 2 * 8192**3 / float(gemm.time_ns(8192, 8192, 8192, precision, found.engine)) / 1e3
    assert low / 1.125 < rate < high * 1.125
