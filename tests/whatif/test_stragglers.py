"""Stragglers: hand arithmetic, and the results that the data's authors published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parsers
from replay.program.pipeline_program import lift
from replay.recording import PipelineRecording
from replay.simulate.engine import simulate
from replay.whatif.pipeline import PipelineQuestion, run
from replay.whatif.stragglers import ideal_workers, typical_durations
from tests.pipeline_recordings import MS, F, layout_of, recording_of


def test_equal_workers_have_no_stragglers() -> None:
    """Slowdown 1, every part 1."""
    found = ideal_workers(lift(recording_of(layout_of(4, 8), lambda item: 10 if item[1] == F else 20)))
    assert found.slowdown == 1
    assert set(found.by_stage.values()) == {1.0}


def test_a_slow_stage_is_found() -> None:
    """p = 3, m = 6, stage 1 takes 16 + 32 ms instead of 10 + 20: typical is 12 + 24, so ideal is (6 + 2)·36 ms.

    Measured: 10 in, 6·48 on stage 1, then 20 out, plus 10 + 20 for the first turn round the last stage.
    """
    found = ideal_workers(
        lift(recording_of(layout_of(3, 6), lambda i: (10 if i[1] == F else 20) * (8 if i[0] == 1 else 5) // 5))
    )
    assert found.ideal_ns == 8 * 36 * MS
    assert found.slowdown > 1
    assert max(found.by_stage, key=lambda stage: found.by_stage[stage]) == 1


def test_compute_takes_the_mean_and_communication_the_median() -> None:
    """One outlier of 100 ms moves the mean only."""
    measured = np.array([[10, 10], [10, 10], [100, 100]], np.int64)
    types = np.array(["forward-compute", "grads-reduce-scatter"])
    assert typical_durations(measured, types, np.zeros(2, np.bool_)).tolist() == [40, 10]


def test_the_prediction_is_the_measured_step_over_the_slowdown() -> None:
    """Equal workers: nothing to gain."""
    recording = recording_of(layout_of(4, 8), lambda item: 10 if item[1] == F else 20)
    answer = run(recording, PipelineQuestion(stragglers=True))
    assert answer.prediction is not None
    assert answer.prediction.step_ns == pytest.approx(answer.measured_step_ns)


def _published(shared_data: Path) -> tuple[PipelineRecording, dict[str, Any]]:
    """A recording, and what the authors of StragglerAnalysis computed for it (``result-ST.json``)."""
    folder = shared_data / "pipeline" / "bytedance_ST"
    recording = parsers.read([folder])
    assert isinstance(recording, PipelineRecording)
    return recording, json.loads((folder / "result-ST.json").read_text(encoding="utf-8"))


def test_published_steps_without_delays_and_without_stragglers(shared_data: Path) -> None:
    """Within 1 % on every step; the measured step exactly."""
    recording, published = _published(shared_data)
    program = lift(recording)
    found = ideal_workers(program)
    assert len(found.steps) == len(published["step_t_base"])
    for step, simulated in zip(program.steps.steps, found.simulated_ns, strict=True):
        key = str(step.step)
        assert step.step_ns / 1e9 == pytest.approx(published["step_t_base"][key], abs=1e-6)
        assert simulated / 1e9 == pytest.approx(published["step_t_nodelay"][key], rel=0.01)
        assert simulate(program.replay(step).graph).step_ns == simulated
        assert found.ideal_ns / 1e9 == pytest.approx(published["step_t_noblk"][key], rel=0.01)


def test_published_slowdown_and_its_parts(shared_data: Path) -> None:
    """By stage within 0.03; by replica and op type alike."""
    recording, published = _published(shared_data)
    found = ideal_workers(lift(recording))
    assert found.slowdown == pytest.approx(published["blocking_slowdown"], abs=0.03)
    for name, parts in (("dp_rank", found.by_dp_rank), ("stage", found.by_stage), ("optype", found.by_op_type)):
        theirs = published[f"blocking_decompose_by_{name}"]
        assert {str(key) for key in parts} == set(theirs)
        assert all(value == pytest.approx(theirs[str(key)], abs=0.03) for key, value in parts.items())
