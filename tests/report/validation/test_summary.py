"""Errors in a few numbers."""

from __future__ import annotations

from typing import Any

import pytest

from replay.report.validation.document import document, to_csv
from replay.report.validation.summary import Summary, summarise, unprofiled
from replay.report.validation.types import CaseRow, Validation


def row(name: str, predicted: float | None, measured: float = 100.0, **known: Any) -> CaseRow:
    """A case whose interval is ± 10 ms around the prediction."""
    interval = None if predicted is None else (predicted - 10, predicted + 10)
    known = {"device": "a100", "change": "ep", "source": "run"} | known
    return CaseRow(name, predicted_step_ms=predicted, measured_step_ms=measured, interval_ms=interval, **known)


ROWS = (row("slow", 104.0), row("fast", 80.0), row("none", None, refused="no layers"))


def test_a_refused_case_counts_as_100_percent_in_the_mean() -> None:
    """(4 + 20 + 100) / 3; bias (4 - 20) / 2; one of two inside."""
    assert summarise(ROWS) == Summary(3, pytest.approx(124 / 3), pytest.approx(20), pytest.approx(-8), 50.0, 1)


def test_nothing_to_summarise_is_no_zero() -> None:
    """Missing is not zero."""
    assert summarise([]) == Summary(0, None, None, None, None, 0)
    assert summarise(ROWS[2:]) == Summary(1, 100.0, None, None, None, 1)
    assert unprofiled(ROWS) is None


def test_unprofiled_steps_are_compared_with_and_without_the_overhead_of_the_source() -> None:
    """110 predicted with 10 % overhead is 100 without; measured 100 with the profiler, 95 without."""
    told = unprofiled([row("x", 110.0, unprofiled_step_ms=95.0, source_overhead_pct=10.0)])
    assert told is not None
    assert told.overhead_pct == pytest.approx(100 * 5 / 95)
    assert told.mean_abs_pct == pytest.approx(100 * 15 / 95)
    assert told.corrected_bias_pct == pytest.approx(100 * 5 / 95)


def test_document_has_the_keys_of_schema_1_first_and_sums_apart_what_is_not_answered() -> None:
    """A change of tp does not count among the device's pairs."""
    found = document(Validation("f.toml", (*ROWS, row("tp", None, change="tp", apart="tp", refused="not modelled"))))
    assert list(found)[:1] == ["schema"]
    assert list(found["cases"][0])[:8] == [
        "name", "device", "change", "predicted_step_ms", "measured_step_ms", "error_pct", "in_interval", "refused",
    ]  # fmt: skip
    assert list(found["summary"]["a100"])[:6] == [
        "pairs", "mean_abs_pct", "worst_pct", "bias_pct", "coverage_pct", "refused",
    ]  # fmt: skip
    assert found["summary"]["a100"]["pairs"] == 3
    assert found["summary"]["a100"]["apart"]["tp"]["refused"] == 1
    assert found["cases"][2]["refused"] is True
    assert found["cases"][2]["reason"] == "no layers"


def test_csv_has_a_line_a_case() -> None:
    """And an empty cell for what is not known."""
    lines = to_csv(Validation("f.toml", ROWS)).splitlines()
    assert len(lines) == 1 + len(ROWS)
    assert lines[1].startswith("slow,a100,ep,104.0,100.0,4.0,True,False,")
