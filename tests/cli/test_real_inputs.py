"""The command line on real inputs: documents of schema 1, refusals that say what is missing, files that are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from replay.cli import main

pytestmark = pytest.mark.shared

DEEPSEEK = "kineto/deepseek_v3_train_h800.json"
NCCL = "kineto/nccl_parser_config_nccl_data.json.gz"
PRIMUS = "pipeline/primus_pp8"
NULLABLE = (
    "lifted_step_ms",
    "lift_error_pct",
    "unassigned_pct",
    "predicted_step_ms",
    "predicted_interval_ms",
    "speedup",
)
STATES = {
    "compute", "exposed_tp", "exposed_cp", "exposed_ep", "exposed_dp", "exposed_pp", "exposed_other", "wait",
    "memory_copy", "bubble", "host", "idle",
}  # fmt: skip


def invoke(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def document(*arguments: object) -> dict[str, Any]:
    """The JSON that a run prints."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed


@pytest.mark.parametrize("name", [DEEPSEEK, NCCL, PRIMUS])
def test_a_baseline_has_numbers_and_no_prediction(name: str, shared_data: Path) -> None:
    """Nothing asked, nothing predicted."""
    result = document(shared_data / name)
    assert [key for key in NULLABLE if result[key] is not None] == []
    for key in ("measured_step_ms", "replayed_step_ms", "replay_error_pct", "start_error_p95_pct"):
        assert isinstance(result[key], float), key
    assert result["layout"]["source"]["world_size"] >= 1
    assert result["question"] == []


@pytest.mark.parametrize("name", [DEEPSEEK, NCCL, PRIMUS])
def test_states_sum_to_the_step(name: str, shared_data: Path) -> None:
    """Measured, replayed and predicted alike; overlapped communication stands beside them."""
    result = document(shared_data / name, "--scale", "@device=0.5")
    for column, step in (
        ("measured", "measured_step_ms"),
        ("replayed", "replayed_step_ms"),
        ("predicted", "predicted_step_ms"),
    ):
        parts = result["breakdown"][column]
        assert sum(parts[state] for state in STATES) == pytest.approx(result[step], rel=1e-6)


def test_changing_nothing_changes_nothing(shared_data: Path) -> None:
    """R1: a factor of 1 predicts the measured step."""
    result = document(shared_data / NCCL, "--scale", "@all=1")
    assert result["speedup"] == pytest.approx(1.0)
    assert result["changes"] == []


@pytest.mark.parametrize(
    ("name", "options"),
    [(DEEPSEEK, ["--from", "ep=64", "--ep", "64"]), (DEEPSEEK, ["--tp", "1"]), (PRIMUS, ["--vpp", "1"])],
)
def test_a_layout_that_is_the_source_predicts_the_measured_step(
    name: str, options: list[str], shared_data: Path
) -> None:
    """R1, also for sizes whose change is not modelled."""
    result = document(shared_data / name, *options)
    assert result["speedup"] == pytest.approx(1.0)
    assert result["layout"]["target"] == result["layout"]["source"]


def test_predictions_carry_an_interval_and_what_was_held(shared_data: Path) -> None:
    """The interval holds the prediction; its basis is stated."""
    result = document(shared_data / PRIMUS, "--vpp", "2")
    low, high = result["predicted_interval_ms"]
    assert low <= result["predicted_step_ms"] <= high
    assert result["interval_basis"]
    assert result["layout"]["target"]["vpp"] == 2
    assert "world size 8" in result["layout"]["held_fixed"]


@pytest.mark.parametrize(
    ("name", "options"),
    [(NCCL, ["--scale", "@device=0.5"]), (PRIMUS, ["--vpp", "2"]), (PRIMUS, ["--scale", "forward=0.9"])],
)
def test_measured_step_anchors_the_prediction(name: str, options: list[str], shared_data: Path) -> None:
    """The ratio stays, the numbers scale; the input's own step is kept beside."""
    plain = document(shared_data / name, *options)
    anchored = document(shared_data / name, *options, "--measured-step", "100")
    assert anchored["measured_step_ms"] == 100
    assert anchored["profiled_step_ms"] == plain["measured_step_ms"]
    assert anchored["speedup"] == pytest.approx(plain["speedup"])


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        (NCCL, ["--stragglers", "ideal"], "pipeline recording"),
        (NCCL, ["--ep", "2"], "expert"),
        (DEEPSEEK, ["--tp", "2"], "tp"),
        (DEEPSEEK, ["--from", "ep=64", "--ep", "32"], "--model"),
        (DEEPSEEK, ["--link", "tp=2"], "tiers of this input"),
        (DEEPSEEK, ["--scale", "no_such_kernel=2"], "no op matches"),
        (DEEPSEEK, ["--vpp", "2"], "micro-batch"),
        (PRIMUS, ["--experts", "balanced"], "give a trace"),
        (PRIMUS, ["--ep", "2"], "ep"),
        (PRIMUS, ["--vpp", "2", "--stragglers", "ideal"], "one at a time"),
    ],
)
def test_what_the_input_cannot_answer_is_refused(name: str, options: list[str], says: str, shared_data: Path) -> None:
    """Exit 3, one line, and what to supply."""
    result = invoke(shared_data / name, *options)
    assert (result.exit_code, says in result.stderr) == (3, True), result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--pp", "3"], "does not divide"), (["--gbs", "0"], "--gbs"), (["--from", "pp=3"], "8")],
)
def test_sizes_that_do_not_fit_are_usage_errors(options: list[str], says: str, shared_data: Path) -> None:
    """The message names the numbers."""
    result = invoke(shared_data / PRIMUS, *options)
    assert (result.exit_code, says in result.stderr) == (2, True), result.output


@pytest.mark.parametrize("suffix", [".json", ".trace.json", ".pftrace"])
def test_the_suffix_decides_what_is_written(suffix: str, shared_data: Path, tmp_path: Path) -> None:
    """A result, a Chrome trace, a Perfetto trace."""
    path = tmp_path / f"out{suffix}"
    assert invoke(shared_data / PRIMUS, "--vpp", "2", "-o", path, "--quiet").exit_code == 0
    begins = {".json": b'{\n  "schema": 1', ".trace.json": b'{"displayTimeUnit"', ".pftrace": b"\n"}
    assert path.read_bytes().startswith(begins[suffix])


def test_inspect_has_the_keys_of_run_and_the_model(shared_data: Path) -> None:
    """And says what can be asked."""
    inspected = document("inspect", shared_data / DEEPSEEK)
    ran = document("run", shared_data / DEEPSEEK)
    prediction = {*NULLABLE, "evidence_share", "sensitivity", "metrics", "memory", "changes", "interval_basis",
                  "question", "pass_order", "stragglers", "profiled_step_ms", "forced", "ops"}  # fmt: skip
    assert set(ran) - prediction <= set(inspected)
    assert {"model", "iterations_logged", "top_ops", "questions", "nothing_to_replay"} <= set(inspected)


def test_report_starts_with_the_headline_and_is_plain(shared_data: Path) -> None:
    """First line the measured step, no escape codes in a file."""
    result = invoke(shared_data / PRIMUS, "--vpp", "2")
    assert result.stdout.startswith("measured ")
    assert "predicted" in result.stdout.splitlines()[2]
    assert "\x1b" not in result.stdout
