"""The two files of the matrix: an archive of traces, and what was measured as cases."""

from __future__ import annotations

import gzip
import json
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from traces.record.job import Job
from traces.record.matrix_runs import RUNS
from traces.record.pack import ARCHIVE, CASES, compact, pack

STEPS = {"median": 100.0, "spread_pct": 0.5, "values": [100.0]}
COUNTERFACTUAL = next(r for r in RUNS if r.base)


def write(folder: Path, job: Job) -> None:
    """A recording of one rank."""
    out = folder / job.name
    out.mkdir(parents=True)
    contents = {"name": job.name, "device": "emulated", "layout": job.layout(), "model": job.model_json()}
    contents |= {"options": job.options(), "profiled_step_ms": STEPS, "unprofiled_step_ms": STEPS, "command": "record"}
    (out / "run.json").write_text(json.dumps(contents))
    (out / "rank0.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A run, one with another EP, and one that repeats the first with a slow kernel."""
    base = next(r.job for r in RUNS if r.name == COUNTERFACTUAL.base)
    for job in (base, Job("other", base.pp, base.vpp, base.dp, 2, gbs=base.gbs), COUNTERFACTUAL.job):
        write(tmp_path / "runs", job)
    pack([tmp_path / "runs"], tmp_path)
    return tmp_path


def test_traces_lie_unpacked_in_a_folder_a_run(packed: Path) -> None:
    """Plain JSON, as its likeness between ranks is what compresses."""
    with tarfile.open(packed / ARCHIVE) as archive:
        names = archive.getnames()
        member = archive.extractfile("other/rank0.json")
        assert member is not None and json.loads(member.read()) == {"traceEvents": []}
    assert len(names) == 6


def test_cases_lead_both_ways_and_to_the_disturbed_run(packed: Path) -> None:
    """EP 4 to 2 and back, and one edit; no path leaves the folder."""
    document: dict[str, Any] = tomllib.loads((packed / CASES).read_text())
    base = COUNTERFACTUAL.base
    cases = {case["name"]: case for case in document["case"]}
    assert set(cases) == {f"{base} -> other", f"other -> {base}", f"{base} -> {COUNTERFACTUAL.name}"}
    assert (cases[f"{base} -> other"]["target"], cases[f"{base} -> other"]["kind"]) == ({"ep": 2}, "ep")
    assert cases[f"other -> {base}"]["source"] == f"{ARCHIVE}/other"
    assert cases[f"{base} -> {COUNTERFACTUAL.name}"]["edit"] == COUNTERFACTUAL.edit
    assert [run["layout"]["ep"] for run in document["run"] if run["name"] == "other"] == [2]


def test_compacting_rounds_times_and_keeps_rows_inside_one_another() -> None:
    """Outer [1.04, 3.06] becomes [1.0, 3.1], inner [1.06, 3.04] becomes [1.1, 3.0]; metadata stays in front."""
    rows = [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.06, "dur": 1.98},
        {"ph": "M", "name": "process_name", "ts": 0},
        {"ph": "X", "cat": "cpu_op", "name": "o", "ts": 1.04, "dur": 2.02},
    ]
    got = json.loads(compact(json.dumps({"traceEvents": rows}).encode()))["traceEvents"]
    assert [(row["name"], row["ts"], row.get("dur")) for row in got] == [
        ("process_name", 0, None), ("o", 1.0, 2.1), ("k", 1.1, 1.9),
    ]  # fmt: skip


def test_targets_only_are_no_sources(packed: Path) -> None:
    """The run is described and predicted; neither its traces nor cases from it are shipped."""
    name = "cpu-dp2-mb8"
    write(packed / "more", Job(name, 2, 1, 4, 4, gbs=32))
    pack([packed / "runs", packed / "more"], packed)
    with tarfile.open(packed / ARCHIVE) as archive:
        assert [member for member in archive.getnames() if name in member] == [f"{name}/run.json"]
    cases = tomllib.loads((packed / CASES).read_text())["case"]
    assert not [case for case in cases if case["source"].endswith(name)]
    assert [case for case in cases if case["name"].endswith(f"-> {name}")]
