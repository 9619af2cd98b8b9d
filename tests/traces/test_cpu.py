"""The recorder of real compute: which jobs there are, and one tiny job that is really recorded."""

from __future__ import annotations

import gzip
import json
from itertools import permutations
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the recorder needs torch")

from traces.record.cpu import CpuPlan, record
from traces.record.cpu_matrix import JOBS, LIVE, TINY
from traces.record.cpu_trace import cut
from traces.record.job import Job

SIZES = ("pp", "vpp", "ep", "gbs")


def test_sixteen_pairs_of_the_matrix_differ_in_one_or_two_sizes() -> None:
    pairs = [
        (a, b)
        for a, b in permutations(JOBS.values(), 2)
        if a.model == b.model and a.world_size == b.world_size
        and 1 <= sum(getattr(a, key) != getattr(b, key) for key in SIZES) <= 2
    ]  # fmt: skip
    assert len(pairs) >= 16


def test_the_live_pair_differs_in_the_batch_only() -> None:
    small, large = LIVE.values()
    assert (small.gbs, large.gbs) == (4, 8)
    assert {**small.layout(), "gbs": 0, "microbatches": 0} == {**large.layout(), "gbs": 0, "microbatches": 0}


def test_one_step_is_cut_out_as_it_was_written(tmp_path: Path) -> None:
    """What begins in the step stays, with all its args; metadata stays; the neighbours go."""
    kept = {"ph": "X", "name": "aten::mm", "ts": 15.5, "dur": 2.0, "args": {"Input Dims": [[1, 2], [2, 3]]}}
    marks = [{"ph": "X", "name": f"ProfilerStep#{i}", "ts": 10.0 * i, "dur": 10.0} for i in (1, 2)]
    events = [{"ph": "M", "name": "process_name"}, *marks, kept, {"ph": "s", "name": "fwdbwd", "ts": 25.0}]
    raw, out = tmp_path / "raw.json", tmp_path / "rank0.json.gz"
    raw.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    cut(raw, out, 1)
    content = json.loads(gzip.decompress(out.read_bytes()))
    assert content == {"schemaVersion": 1, "traceEvents": [events[0], marks[0], kept]}


def test_two_ranks_train_and_leave_their_traces(tmp_path: Path) -> None:
    """Experts on both ranks: attention, routing, exchanges, sums, norm and optimizer are all in the trace."""
    job = Job("tiny", pp=1, dp=2, ep=2, gbs=4, model=TINY)
    record(CpuPlan(job, tmp_path, plain_steps=2, profiled_steps=3))
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["device"] == "cpu"
    assert run["layout"]["ep"] == 2
    assert len(run["profiled_step_ms"]["values"]) == 3
    names = {e["name"] for e in json.loads(gzip.decompress((tmp_path / "rank1.json.gz").read_bytes()))["traceEvents"]}
    assert {"gloo:all_to_all", "gloo:all_reduce", "aten::bmm", "aten::_fused_adam_", "layer=3"} <= names
