"""Sides of a comparison from files: saved results, recordings, logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.core.errors import TraceError
from replay.report.diff.compare import compare
from replay.session.question import Facts
from replay.session.sides import load


def saved(folder: Path, **keys: Any) -> Path:
    """A result file with these keys."""
    path = folder / "saved.json"
    path.write_text(json.dumps({"schema": 1} | keys), encoding="utf-8")
    return path


def test_rounded_states_still_sum_to_the_step(tmp_path: Path) -> None:
    """1/3 ms three times is one ns short of 1 ms; the largest state takes it."""
    third = 1 / 3
    states = {"rank": 2, "compute": third, "host": third, "idle": third}
    side = load(saved(tmp_path, predicted_step_ms=1.0, breakdown={"predicted": states}), Facts(), "a")
    assert (side.step_ns, side.rank) == (1_000_000, 2)
    assert sum(side.parts_ns.values()) == 1_000_000
    assert side.parts_ns["compute"] == 333_334


def test_states_of_another_step_are_not_bent(tmp_path: Path) -> None:
    """With --measured-step the states are the profiled step's: 10 ms of 12 stay 10."""
    path = saved(tmp_path, predicted_step_ms=12.0, breakdown={"predicted": {"compute": 10.0}})
    assert sum(load(path, Facts(), "a").parts_ns.values()) == 10_000_000


def test_without_a_prediction_the_replayed_step_counts(tmp_path: Path) -> None:
    """A run without a question predicts nothing."""
    path = saved(tmp_path, measured_step_ms=3.0, replayed_step_ms=2.0, predicted_step_ms=None)
    side = load(path, Facts(), "a")
    assert (side.step_ns, side.step_used) == (2_000_000, "replayed step")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"schema": 2}, "not a result of schema 1"),
        ({"measured_step_ms": None}, "without any step"),
        ({"predicted_step_ms": -1.0}, "without any step"),
        ({"breakdown": "none"}, "breakdown"),
        ({"predicted_interval_ms": [1]}, "predicted_interval_ms"),
    ],
)
def test_what_is_no_result_says_so(tmp_path: Path, keys: dict[str, Any], words: str) -> None:
    """Another schema, no step, or values of the wrong kind, by their field."""
    with pytest.raises(TraceError, match=words):
        load(saved(tmp_path, **keys), Facts(), "a")


def test_a_cut_result_says_so(tmp_path: Path) -> None:
    """Half a file."""
    path = saved(tmp_path, predicted_step_ms=1.0)
    path.write_text(path.read_text()[:-5], encoding="utf-8")
    with pytest.raises(TraceError, match="save the prediction again"):
        load(path, Facts(), "a")


def test_a_measured_step_in_the_interval(tmp_path: Path) -> None:
    """The prediction's interval is kept in ns."""
    path = saved(tmp_path, predicted_step_ms=1.0, predicted_interval_ms=[0.9, 1.2])
    assert load(path, Facts(), "a").interval_ns == (900_000, 1_200_000)


@pytest.mark.shared
def test_two_steps_of_a_recording(shared_data: Path) -> None:
    """Primus PP8, steps 8 and 12: recorded totals differ by 1.142 ms, and the parts of every stage sum to it."""
    path = shared_data / "pipeline" / "primus_pp8"
    a, b = (load(path, Facts(step=step), label) for step, label in ((8, "a"), (12, "b")))
    found = compare(a, b)
    assert found.difference_ns == pytest.approx(1_142_000, abs=1_000)
    assert all(sum(parts.values()) == found.difference_ns for parts in found.parts_by_rank_ns.values())
    assert {row.op for row in found.ops} == {"forward pass", "backward pass"}


@pytest.mark.shared
def test_two_logs(shared_data: Path) -> None:
    """The step is all that a log holds of a step's time; throughput and memory stand beside it."""
    folder = shared_data / "logs"
    names = ("meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out", "meg_gpt2_base_n16_dp1_tp4_pp16-1809577.out")
    found = compare(*(load(folder / name, Facts(), label) for name, label in zip(names, "ab", strict=True)))
    assert found.parts_ns == {"unattributed": found.difference_ns}
    assert found.notes[0].startswith("the layouts differ: pp 4 -> 16")
