"""``validate --live``: what is recorded here and now, with a recorder that takes no time."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from replay.core.errors import RefusedError
from replay.session import validation_live
from replay.session.validation_live import validate_live
from tests.cli.test_diff import recording

CASES = """
[[case]]
name = "live"
live_source = "cpu --ep 1"
live_target = "cpu --ep 2"
edit = "--scale attention=2"
device = "cpu"
[[case]]
name = "kept"
source = "nothing"
measured_step_ms = 1
"""


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of cases, and PyTorch as if it were installed."""
    monkeypatch.setattr(validation_live, "find_spec", lambda _name: object())
    path = tmp_path / "cases.toml"
    path.write_text(CASES, encoding="utf-8")
    return path


def recorder(calls: list[list[str]], *, fails: bool = False) -> Any:
    """Stands for the subprocess: writes a step of 0.32 ms, or 0.52 ms with ``--ep 2``."""

    def run(command: list[str], **_known: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command[3:-2])
        if fails:
            return subprocess.CompletedProcess(command, 1, "", "Traceback\nRuntimeError: no device")
        out = Path(command[-1])
        out.mkdir()
        slow = "2" in command
        recording(out, "rank0.json", 400 if slow else 200)
        steps = {"profiled_step_ms": {"values": [0.52 if slow else 0.32]}, "unprofiled_step_ms": {"values": [0.5]}}
        (out / "run.json").write_text(json.dumps(steps), encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


def test_both_runs_are_recorded_and_compared(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases that do not say how are counted; recordings are gone afterwards."""
    calls: list[list[str]] = []
    monkeypatch.setattr(validation_live.subprocess, "run", recorder(calls))
    found = validate_live(cases)
    assert calls == [["cpu", "--ep", "1"], ["cpu", "--ep", "2"]]
    (row,) = found.rows
    assert (row.refused, row.measured_step_ms, row.unprofiled_step_ms) == ("", 0.52, 0.5)
    assert row.predicted_step_ms == pytest.approx(0.52, rel=0.02)
    assert found.warnings == ("1 cases do not say how they were recorded and are left out",)


def test_a_recorder_that_fails_is_a_refused_case(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its last line; another case of the same recording does not wait for it to fail again."""
    calls: list[list[str]] = []
    monkeypatch.setattr(validation_live.subprocess, "run", recorder(calls, fails=True))
    again = CASES.partition('[[case]]\nname = "kept"')[0].replace('"live"', '"again"')
    cases.write_text(CASES + again, encoding="utf-8")
    reasons = {row.name: row.refused for row in validate_live(cases).rows}
    assert reasons == dict.fromkeys(
        ("live", "again"), "--live: cpu --ep 1: the recorder failed: RuntimeError: no device"
    )
    assert calls == [["cpu", "--ep", "1"]]


def test_what_is_missing_is_named(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch, the recorder, or the words."""
    monkeypatch.setattr(validation_live, "find_spec", lambda _name: None)
    with pytest.raises(RefusedError, match="pip install torch"):
        validate_live(cases)
    monkeypatch.setattr(validation_live, "RECORDER", "traces.nothing")
    with pytest.raises(RefusedError, match="run from a checkout"):
        validate_live(cases)
    cases.write_text('[[case]]\nname = "x"', encoding="utf-8")
    with pytest.raises(RefusedError, match="live_source and live_target"):
        validate_live(cases)
