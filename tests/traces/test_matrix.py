"""Facts of the shipped matrix: how much was measured, and that it needs nothing from outside."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from traces.record.matrix_runs import RUNS

TRACES = Path(__file__).resolve().parents[2] / "traces"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """``matrix.toml``, decoded."""
    return tomllib.loads((TRACES / "matrix.toml").read_text())


def test_every_emulated_run_is_there(document: dict[str, Any]) -> None:
    """As the list of runs has them, with steps timed with and without the profiler."""
    emulated = {run["name"]: run for run in document["run"] if run["device"] == "emulated"}
    assert set(emulated) == {run.name for run in RUNS}
    assert all(emulated[run.name]["layout"] == run.job.layout() for run in RUNS)
    assert all(run["profiled_step_ms"] > 0 and run["unprofiled_step_ms"] > 0 for run in document["run"])


def test_steps_were_quiet(document: dict[str, Any]) -> None:
    """Ten emulated steps with the profiler lie within 2 %."""
    assert max(run["profiled_spread_pct"] for run in document["run"] if run["device"] == "emulated") < 2.0


def test_there_are_enough_cases_of_both_devices(document: dict[str, Any]) -> None:
    """At least 60 emulated and 16 CPU pairs, none named twice, each in one half."""
    cases = document["case"]
    assert len({case["name"] for case in cases}) == len(cases)
    assert {case["split"] for case in cases} == {"calibrate", "report"}
    count = {device: sum(case["device"] == device for case in cases) for device in ("emulated", "cpu")}
    assert count["emulated"] >= 60
    assert count["cpu"] >= 16


def test_sources_are_runs_whose_traces_are_shipped(document: dict[str, Any]) -> None:
    """A folder of the archive beside the cases, which is at most 10 MB."""
    shipped = {f"matrix.tar.xz/{run['name']}" for run in document["run"] if run["traces"]}
    assert {case["source"] for case in document["case"]} <= shipped
    assert (TRACES / "matrix.tar.xz").stat().st_size <= 10_000_000
