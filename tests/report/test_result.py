"""The JSON document: keys are fields, missing is null, and no number is NaN."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from replay.report.result import HealthFacts, InputFacts, LayoutFacts, RunResult, to_json_bytes

SCHEMA_1 = {
    "schema", "input", "health", "layout", "measured_step_ms", "replayed_step_ms", "replay_error_pct",
    "start_error_p95_pct", "residual_pct", "lifted_step_ms", "lift_error_pct", "unassigned_pct", "predicted_step_ms",
    "predicted_interval_ms", "speedup", "breakdown", "evidence_share", "sensitivity", "metrics", "memory", "warnings",
}  # fmt: skip
INPUT = {"files", "format", "device", "ranks", "world_size", "steps", "step_used"}
HEALTH = {"events", "dropped", "clipped", "inferred_edges", "kernels_without_launch", "warnings"}

RESULT = RunResult(
    input=InputFacts(("a.json",), "kineto", "", (0,), None, (), ""),
    health=HealthFacts(10, 0, 0, None, 0, ()),
    layout=LayoutFacts({}, {}, (), {}),
)


def document(result: RunResult) -> dict[str, object]:
    """What a reader of the JSON sees."""
    parsed: dict[str, object] = json.loads(to_json_bytes(result))
    return parsed


def test_all_keys_of_schema_1_are_there() -> None:
    """Also where nothing is known."""
    written = document(RESULT)
    assert written["schema"] == 1
    assert set(written) >= SCHEMA_1
    assert set(written["input"]) >= INPUT  # type: ignore[call-overload]
    assert set(written["health"]) >= HEALTH  # type: ignore[call-overload]


def test_missing_is_null_not_zero() -> None:
    """A prediction that was not asked for is not a prediction of 0."""
    assert document(RESULT)["predicted_step_ms"] is None


def test_numpy_numbers_are_written_as_numbers() -> None:
    """Results are made of numpy scalars in places."""
    assert document(replace(RESULT, measured_step_ms=np.float64(1.5)))["measured_step_ms"] == 1.5


@pytest.mark.parametrize("number", [float("nan"), float("inf"), np.float64("nan")])
def test_a_number_that_is_not_finite_is_never_written(number: float) -> None:
    """The message names the field."""
    with pytest.raises(ValueError, match=r"breakdown\.measured\.compute"):
        to_json_bytes(replace(RESULT, breakdown={"measured": {"compute": number}}))
