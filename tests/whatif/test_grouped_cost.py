"""Grouped GEMMs by experts and rows; expected values by hand from t = a E + u(r) F."""

import numpy as np
import pytest

from replay.core.columns import Float64
from replay.program.gemm_shapes import GemmShapes
from replay.whatif._grouped_cost import GroupedCost, learn


def column(*values: float) -> Float64:
    """A column of floats."""
    return np.array(values, np.float64)


def shapes_of(flops: Float64, rows: Float64, experts: Float64) -> GemmShapes:
    """Shapes of which nothing else counts."""
    none = np.zeros(len(flops))
    return GemmShapes(flops, rows, experts, none, none, none > 0, np.full(len(flops), -1, np.int64))


def test_two_shapes_tell_what_an_expert_costs_by_itself() -> None:
    """8 experts of 512 rows, F and 2 F: 8 a + u F = 180 and 8 a + 2 u F = 340, so a = 2.5, u F = 160; dense: 100."""
    shapes = shapes_of(column(1e3, 2e3, 2e3), column(4096, 4096, 4096), column(8, 8, 1))
    cost = learn(column(180, 340, 200), shapes, np.array([True, True, False]), np.array([False, False, True]))
    assert cost is not None
    assert cost.expert_ns == pytest.approx(2.5)
    assert cost.time_ns(column(1), column(1e3), column(4096)) == pytest.approx(2.5 + 100 + 60 / 8)
    assert cost.time_ns(column(1), column(1e3), column(256)) == pytest.approx(2.5 + 160 + 60 / 3)
    assert cost.time_ns(column(8), column(1e3), column(512)) == pytest.approx(180)


def test_fewer_rows_at_most_double_the_time_per_flop_for_each_halving() -> None:
    """100 at 2 rows and 99 more a halving: 199 at 1 row; with 200 more it would be 300, but an expert never gains."""
    steep, steeper = GroupedCost(0.0, 2.0, 100.0, 1.0, 99.0), GroupedCost(0.0, 2.0, 100.0, 1.0, 200.0)
    assert steep.time_ns(column(1), column(1), column(1)) == pytest.approx(199)
    assert steeper.time_ns(column(1), column(1), column(1)) == pytest.approx(200)


def test_without_grouped_gemms_nothing_is_learned() -> None:
    shapes = shapes_of(column(1e3), column(4096), column(1))
    assert learn(column(100), shapes, np.array([False]), np.array([True])) is None


def test_one_number_of_rows_leaves_an_assumed_slope() -> None:
    """11 % more time per FLOP for half the rows."""
    both = np.array([True, False])
    cost = learn(column(100, 100), shapes_of(column(1e3, 1e3), column(4096, 4096), column(1, 1)), both, ~both)
    assert cost is not None
    assert cost.assumed
    assert cost.time_ns(column(2), column(1e3), column(2048)) == pytest.approx(111)
