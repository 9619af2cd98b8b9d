"""``replay diff`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from replay.cli import main
from tests.graph.steps import call, launch, op, step
from tests.parsers.chrome import text

KEYS = ["schema", "a", "b", "difference_ms", "parts_ms", "ops", "noise_ms"]


def recording(folder: Path, name: str, kernel_us: float) -> Path:
    """A step of 1 ms on the host whose second kernel takes ``kernel_us``, then a sync."""
    begin, end = 20 + 100, 120 + kernel_us
    events = [
        step(max(end + 5, 300)),
        *launch("gemm", 10, 20, 100, 1),
        *launch("attention", 30, begin, kernel_us, 2),
        op("aten::mm", 5, 40),
        call("cudaDeviceSynchronize", 50, end - 50, 3),
    ]
    path = folder / name
    path.write_bytes(text(events, distributedInfo={"backend": "nccl", "rank": 0, "world_size": 1}))
    return path


def diff(*arguments: str | Path) -> str:
    """Output of a run that must succeed."""
    result = CliRunner().invoke(main, ["diff", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_has_the_keys_of_schema_1_first(tmp_path: Path) -> None:
    """A kernel of 200 µs that takes 500 µs: the step ends 300 µs later, and that is compute."""
    before, after = recording(tmp_path, "a.json", 200), recording(tmp_path, "b.json", 500)
    document = json.loads(diff(before, after, "--json"))
    assert list(document)[: len(KEYS)] == KEYS
    assert document["difference_ms"] == pytest.approx(0.3)
    assert document["parts_ms"]["compute"] == pytest.approx(0.3)
    assert sum(document["parts_ms"].values()) == pytest.approx(document["difference_ms"], abs=1e-9)
    assert document["causes"][0]["what"] == "attention (attention forward) x2.500"
    assert document["causes"][0]["effect_ms"] == pytest.approx(0.3)


def test_report_names_the_cause(tmp_path: Path) -> None:
    """The first cause stands before everything else."""
    report = diff(recording(tmp_path, "a.json", 200), recording(tmp_path, "b.json", 500))
    assert "1. +0.300 ms  attention (attention forward) x2.500" in report


def test_a_saved_prediction_is_a_side(tmp_path: Path) -> None:
    """It knows the step and its parts, not the ops."""
    before, after = recording(tmp_path, "a.json", 200), recording(tmp_path, "b.json", 500)
    saved = tmp_path / "predicted.json"
    asked = CliRunner().invoke(main, ["run", str(before), "--scale", "attention=2", "-o", str(saved)])
    assert asked.exit_code == 0, asked.output
    document = json.loads(diff(saved, after, "--json"))
    assert document["a"]["source"] == "prediction"
    assert document["difference_ms"] == pytest.approx(0.1, rel=0.05)
    assert sum(document["parts_ms"].values()) == pytest.approx(document["difference_ms"], abs=1e-9)
    assert document["ops"][0]["op"] == "attention"
    assert document["ops"][0]["difference_ms"] == pytest.approx(0.1)
    assert "a timeline" in document["only_b"]


def test_both_timelines_are_written(tmp_path: Path) -> None:
    """One process a rank and side, both from zero."""
    out = tmp_path / "both.trace.json"
    diff(recording(tmp_path, "a.json", 200), recording(tmp_path, "b.json", 500), "-o", out)
    events = json.loads(out.read_bytes())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"rank 0 a", "rank 0 b"}


def test_a_log_against_a_trace_compares_the_step(tmp_path: Path) -> None:
    """What both know is compared; the rest is said to be known by one side."""
    line = (
        " iteration {0:8d}/      10 | consumed samples: {1:12d} | elapsed time per iteration (ms): 1.5 | "
        "learning rate: 1.0E-04 |"
    )
    log = tmp_path / "train.log"
    log.write_text("\n".join(line.format(i, i * 8) for i in range(1, 9)) + "\n", encoding="utf-8")
    document = json.loads(diff(log, recording(tmp_path, "b.json", 500), "--json"))
    assert document["a"]["source"] == "log"
    assert document["a"]["step_ms"] == pytest.approx(1.5)
    assert document["parts_ms"] == {"unattributed": pytest.approx(document["difference_ms"])}
