"""The 80 % interval: parts in quadrature, each from hand arithmetic."""

from __future__ import annotations

import pytest

from replay.session.interval import UNKNOWN_SPREAD, Part, bias, bracket, interval, spread_pct, start_error, step_spread


def test_parts_add_in_quadrature() -> None:
    """3 % and 4 % make 5 %."""
    low, high = interval(100.0, [Part.symmetric(0.03, ""), Part.symmetric(0.04, "")])
    assert (low, high) == (pytest.approx(95.0), pytest.approx(105.0))


def test_sides_may_differ() -> None:
    """A bracket of 90 and 120 around 100."""
    assert interval(100.0, [bracket(100.0, (90.0, 120.0), "")]) == (pytest.approx(90.0), pytest.approx(120.0))


def test_a_bracket_that_does_not_hold_the_prediction_widens_one_side_only() -> None:
    """Never a negative width."""
    assert bracket(100.0, (104.0, 110.0), "").low == 0.0


def test_spread_of_steps_is_a_robust_deviation_over_the_median() -> None:
    """90, 100, 110: median distance 10 from the median 100."""
    assert spread_pct((90, 100, 110)) == pytest.approx(14.826)
    assert step_spread((90, 100, 110)).low == pytest.approx(0.19001, rel=1e-4)


def test_the_first_steps_of_a_recording_do_not_widen_the_spread() -> None:
    """99, 100, 101 and two that fill the queue: distances 0, 1, 2, 39, 59 from 99."""
    assert spread_pct((40, 60, 99, 100, 101)) == pytest.approx(100 * 1.4826 * 2 / 99)


@pytest.mark.parametrize("steps", [(), (100,), (100, 101)])
def test_fewer_than_three_steps_say_nothing(steps: tuple[int, ...]) -> None:
    """The assumed width is stated, not hidden."""
    assert spread_pct(steps) is None
    assert step_spread(steps).low == UNKNOWN_SPREAD
    assert "assumed" in step_spread(steps).basis


def test_replay_error_counts_whole_and_start_error_is_brought_to_80_percent() -> None:
    """1.96 % at 95 % is 1.2816 % at 80 %."""
    assert bias(-2.0, "replay").low == pytest.approx(0.02)
    assert start_error(1.96).low == pytest.approx(0.012816)
