"""The terminal report: what it says, not how it looks."""

from __future__ import annotations

import io
from dataclasses import replace

from replay.report.result import ChangeRow, HealthFacts, InputFacts, LayoutFacts, RunResult, Sensitivity
from replay.report.text import render_run

BASELINE = RunResult(
    input=InputFacts(("a.json",), "kineto", "", (0,), None, (), ""),
    health=HealthFacts(10, 0, 0, 3, 0, ("a warning",)),
    layout=LayoutFacts({"ep": 4, "gbs": None}, {"ep": 8, "gbs": None}, ("gbs 64",), {"ep": "given"}),
    measured_step_ms=1234.5,
    replayed_step_ms=1230.0,
    replay_error_pct=0.36,
    breakdown={"measured": {"rank": 3, "compute": 1000.0, "host": 234.5, "bubble": 0.0}},
)
PREDICTED = replace(
    BASELINE,
    predicted_step_ms=1000.0,
    predicted_interval_ms=(900.0, 1100.0),
    speedup=1.2345,
    changes=(ChangeRow("x" * 3000, {"nbytes": 2e9}, {"nbytes": 1e9}, "measured x bytes", "scaled"),),
)


def report(result: RunResult, **how: bool) -> str:
    """The text as it goes into a file."""
    out = io.StringIO()
    render_run(result, out, **how)
    return out.getvalue()


def test_headline_has_the_three_steps_the_interval_and_the_speed_up() -> None:
    """In milliseconds, first."""
    measured, replayed, predicted, *_ = report(PREDICTED).splitlines()
    assert measured == "measured   1,234.5 ms"
    assert replayed == "replayed   1,230.0 ms  (error 0.36 %)"
    assert predicted == "predicted  1,000.0 ms  (80 %: 900.0 ms to 1,100.0 ms), speed-up x1.234"


def test_quiet_is_the_headline_only() -> None:
    """Without a question, two lines."""
    assert len(report(BASELINE, quiet=True).splitlines()) == 2


def test_layout_shows_what_moves_and_unknown_sizes_are_left_out() -> None:
    """Missing is not zero."""
    text = report(PREDICTED)
    assert "ep 4 -> 8" in text
    assert "gbs None" not in text
    assert "held fixed: gbs 64" in text


def test_a_change_has_units_grade_and_formula_and_no_endless_name() -> None:
    """Kernel names run to kilobytes."""
    text = report(PREDICTED)
    assert "nbytes 2.00 GB -> 1.00 GB" in text
    assert "[scaled]" in text
    assert "measured x bytes" in text
    assert max(map(len, text.splitlines())) <= 120


def test_states_without_time_are_left_out() -> None:
    """A table of zeros hides the numbers."""
    text = report(BASELINE)
    assert "compute" in text
    assert "bubble" not in text


def test_three_parameters_are_shown_each_with_both_directions() -> None:
    """The fourth is in the JSON."""
    rows = [Sensitivity(f"p{i}", change, 1.0, 0.1) for i in range(4) for change in ("x0.9", "x1.1")]
    text = report(replace(BASELINE, sensitivity=tuple(rows)))
    assert "p2: x0.9 +1.000 ms (+0.10 %), x1.1 +1.000 ms (+0.10 %)" in text
    assert "p3" not in text


def test_force_is_said_at_the_top() -> None:
    """Nobody reads the last line."""
    assert "--force" in report(replace(PREDICTED, forced=True)).splitlines()[3]


def test_explain_defines_the_words() -> None:
    """Every word of the report has one meaning."""
    assert "What the words mean" in report(BASELINE, explain=True)
    assert "What the words mean" not in report(BASELINE)
