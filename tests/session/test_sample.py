"""The shipped sample, end to end: its baseline, and its prediction against the job that was really run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay import api
from replay.report.result import RunResult


@pytest.fixture(scope="module")
def result(sample: Path) -> RunResult:
    """The README's main job."""
    return api.run([sample], ep=8, vpp=2)


@pytest.fixture(scope="module")
def measured_ms(root: Path) -> float:
    """The profiled step of the target layout, from the run that was made beside the sample."""
    run = json.loads((root / "traces/moe-pp2-dp8-ep8-vpp2/run.json").read_text(encoding="utf-8"))
    return float(run["profiled_step_ms"]["median"])


def test_the_baseline_is_reproduced(result: RunResult) -> None:
    """Without residuals, and op by op: errors do not cancel."""
    assert result.replay_error_pct is not None
    assert result.start_error_p95_pct is not None
    assert result.replay_error_pct <= 1
    assert result.start_error_p95_pct <= 3


def test_the_prediction_is_within_5_percent_of_the_measured_step(result: RunResult, measured_ms: float) -> None:
    """And the measured step lies in the interval."""
    assert result.predicted_step_ms == pytest.approx(measured_ms, rel=0.05)
    assert result.predicted_interval_ms is not None
    low, high = result.predicted_interval_ms
    assert low <= measured_ms <= high


def test_the_layout_is_what_was_asked(result: RunResult) -> None:
    """World, batch and model stay; pp 2 and dp 8 follow."""
    target = result.layout.target
    assert {key: target[key] for key in ("ep", "vpp", "pp", "dp", "gbs", "world_size")} == {
        "ep": 8, "vpp": 2, "pp": 2, "dp": 8, "gbs": 64, "world_size": 16
    }  # fmt: skip


def test_all_device_time_is_assigned(result: RunResult) -> None:
    """Every device op of the sample stands under a range."""
    assert result.unassigned_pct == 0.0
