"""Facts of the shipped recordings, counted from the job's own sizes."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from traces.record import groups
from traces.record.job import Job

ROOT = Path(__file__).resolve().parents[2] / "traces"
SOURCE = Job("moe-pp2-dp8-ep4")
TARGET = Job("moe-pp2-dp8-ep8-vpp2", ep=8, vpp=2)
LAYERS_PER_RANK, MICROBATCHES, EXCHANGES = 4, 8, 4  # dispatch and combine, forward and backward


def run(job: Job) -> dict[str, Any]:
    """``run.json`` of a recording."""
    decoded: dict[str, Any] = json.loads((ROOT / job.name / "run.json").read_text())
    return decoded


@pytest.fixture(scope="module", params=range(16))
def trace(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One rank's file, decoded."""
    decoded: dict[str, Any] = json.loads(
        gzip.decompress((ROOT / SOURCE.name / f"rank{request.param}.json.gz").read_bytes())
    )
    return decoded


def test_it_is_small() -> None:
    """Sixteen files, at most 2 MB together."""
    files = list((ROOT / SOURCE.name).glob("rank*.json.gz"))
    assert len(files) == SOURCE.world_size == 16
    assert sum(file.stat().st_size for file in files) <= 2_000_000


@pytest.mark.parametrize("job", [SOURCE, TARGET], ids=lambda job: job.name)
def test_run_json_states_job_and_steps(job: Job) -> None:
    """Layout and model as asked for, at least ten steps without the profiler, and how to run it again."""
    stated = run(job)
    assert (stated["layout"], stated["model"]) == (job.layout(), job.model_json())
    assert len(stated["unprofiled_step_ms"]["values"]) >= 10
    assert stated["trace_step_ms"] in stated["profiled_step_ms"]["values"]
    assert stated["command"].startswith("python -m traces.record sample")


def test_both_runs_come_from_one_recorder() -> None:
    """Same device, torch, model and global batch; only ep, vpp and what follows from them differ."""
    source, target = run(SOURCE), run(TARGET)
    assert all(source[key] == target[key] for key in ("device", "torch", "model", "command"))
    differ = {key for key, value in source["layout"].items() if target["layout"][key] != value}
    assert differ == {"ep", "vpp", "schedule", "overlap_p2p"}


def test_passes_are_complete(trace: dict[str, Any]) -> None:
    """As many forwards as backwards: one a micro-batch."""
    names = Counter(
        event["name"].split(" ")[0] for event in trace["traceEvents"] if event.get("cat") == "user_annotation"
    )
    assert names["forward"] == names["backward"] == MICROBATCHES
    assert names["experts"] == 2 * MICROBATCHES * LAYERS_PER_RANK


def test_collectives_of_each_group(trace: dict[str, Any]) -> None:
    """Exchanges of every layer and micro-batch, one message each way a micro-batch, one gradient sum a bucket."""
    kernels = [event["args"] for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    calls = Counter(args["Process Group Description"] for args in kernels if "Collective name" in args)
    assert calls == {
        groups.EXPERT: MICROBATCHES * LAYERS_PER_RANK * EXCHANGES,
        groups.PIPELINE: 2 * MICROBATCHES,
        groups.DATA: 1,
        groups.EXPERT_DATA: 1,
        groups.MODEL: 1,
        groups.EXPERT_NORM: 1,
    }


def test_groups_are_megatrons(trace: dict[str, Any]) -> None:
    """pg_config lists this rank's group of every kind."""
    info = trace["distributedInfo"]
    listed = {group["pg_desc"]: tuple(group["ranks"]) for group in info["pg_config"]}
    for description, parts in groups.members(SOURCE).items():
        assert listed[description] in parts
        assert info["rank"] in listed[description]


def test_every_kernel_has_its_launch(trace: dict[str, Any]) -> None:
    """One launch a kernel, before the kernel starts."""
    events = trace["traceEvents"]
    launched = {e["args"]["correlation"]: e["ts"] for e in events if e["name"] == "emuLaunchKernel"}
    kernels = {e["args"]["correlation"]: e["ts"] for e in events if e.get("cat") == "kernel"}
    assert launched.keys() == kernels.keys()
    assert all(launched[key] <= start for key, start in kernels.items())


def test_streams_execute_one_kernel_at_a_time(trace: dict[str, Any]) -> None:
    """No overlap on a stream."""
    kernels = sorted((e["tid"], e["ts"], e["ts"] + e["dur"]) for e in trace["traceEvents"] if e.get("cat") == "kernel")
    for (stream, _, end), (next_stream, start, _) in pairwise(kernels):
        assert stream != next_stream or end <= start + 0.001
