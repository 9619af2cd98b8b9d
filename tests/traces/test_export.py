"""The exporter: which Kineto rows the profiler's ranges become."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from traces.record.calls import Call
from traces.record.export import export

BASE_NS = 1_700_000_000_000_000_000
HOST, STREAM = 100, 107


def recorded(name: str, ts: float, dur: float, tid: int = HOST, cat: str = "cpu_op") -> dict[str, Any]:
    """A row as torch.profiler writes it."""
    return {"ph": "X", "cat": cat, "name": name, "pid": HOST, "tid": tid, "ts": ts, "dur": dur, "args": {"Ev Idx": 1}}


RAW = {
    "schemaVersion": 1,
    "baseTimeNanoseconds": BASE_NS,
    "distributedInfo": {"backend": "sharedgloo", "rank": 3},
    "traceEvents": [
        recorded("ProfilerStep#2", 2_500_000.0, 900.0, cat="user_annotation"),
        recorded("@layer=5", 2_500_010.0, 500.0),
        recorded("~op 1", 2_500_020.0, 9.0),
        recorded("~launch 2", 2_500_021.0, 3.0),
        recorded("~kernel 2", 2_500_030.125, 400.0, tid=STREAM),
        recorded("~record 3", 2_500_040.0, 1.0),
        recorded("~wait 4", 2_500_050.0, 1.0),
        recorded("~kernel 5", 2_500_440.0, 100.0, tid=STREAM + 1),
        recorded("~synchronize 6", 2_500_060.0, 700.0),
        recorded("gloo:send", 2_500_440.0, 50.0, tid=STREAM + 1, cat="user_annotation"),
        recorded("@layer=5", 2_600_000.0, 5.0),
    ],
}
CALLS = {
    1: Call(-1, "aten::mm", {"dims": ((8, 4), (4, 2)), "sequence": 41, "forward_thread": 1}),
    2: Call(7, "gemm"),
    3: Call(7),
    4: Call(21, record=3, record_stream=7),
    5: Call(21, "emuAllReduce", {"Collective name": "allreduce"}, sequence=9),
    6: Call(-1),
}


@pytest.fixture
def written(tmp_path: Path) -> dict[str, Any]:
    """The exported file, decoded."""
    (tmp_path / "raw.json").write_text(json.dumps(RAW))
    export(tmp_path / "raw.json", tmp_path / "rank3.json.gz", CALLS, 2, 3)
    decoded: dict[str, Any] = json.loads(gzip.decompress((tmp_path / "rank3.json.gz").read_bytes()))
    return decoded


def rows(written: dict[str, Any], category: str) -> list[dict[str, Any]]:
    """Rows of one category, in the file's order."""
    return [event for event in written["traceEvents"] if event.get("cat") == category]


def test_times_stay_as_measured(written: dict[str, Any]) -> None:
    """The base moves to the step's second; base + ts is the same instant to the nanosecond."""
    kernel = rows(written, "kernel")[0]
    assert written["baseTimeNanoseconds"] == BASE_NS + 2_000_000_000
    assert (kernel["ts"], kernel["dur"]) == (500_030.125, 400.0)


def test_kernels_lie_on_the_device(written: dict[str, Any]) -> None:
    """pid is the device, tid the stream; collectives carry NCCL's keys and their number."""
    gemm, reduce = rows(written, "kernel")
    assert (gemm["pid"], gemm["tid"], gemm["args"]) == (3, 7, {"device": 3, "stream": 7, "correlation": 2})
    assert (reduce["args"]["Collective name"], reduce["args"]["Seq"]) == ("allreduce", 9)


def test_host_calls_become_runtime_rows(written: dict[str, Any]) -> None:
    """In order of time, under CUDA's names but for the launch."""
    names = [row["name"] for row in rows(written, "cuda_runtime")]
    assert names == ["emuLaunchKernel", "cudaEventRecord", "cudaStreamWaitEvent", "cudaDeviceSynchronize"]


def test_event_waits_name_the_record_they_wait_for(written: dict[str, Any]) -> None:
    """As Kineto's cuda_sync rows do."""
    wait = rows(written, "cuda_sync")[0]["args"]
    assert (wait["stream"], wait["wait_on_stream"], wait["wait_on_cuda_event_record_corr_id"]) == (21, 7, 3)


def test_operators_carry_shapes_and_their_place_in_autograd(written: dict[str, Any]) -> None:
    """A cpu_op around the launch, with Kineto's keys."""
    (op,) = rows(written, "cpu_op")
    assert (op["args"]["Sequence number"], op["args"]["Fwd thread id"]) == (41, 1)
    assert (op["name"], op["args"]["Input Dims"]) == ("aten::mm", [[8, 4], [4, 2]])


def test_only_the_steps_own_ranges_are_kept(written: dict[str, Any]) -> None:
    """Gloo's annotations and what lies outside the step are left out, and the backend is called what it is."""
    assert [row["name"] for row in rows(written, "user_annotation")] == ["ProfilerStep#2", "layer=5"]
    assert written["distributedInfo"] == {"backend": "gloo", "rank": 3}


def test_a_missing_step_is_an_error(tmp_path: Path) -> None:
    """The message names the step."""
    (tmp_path / "raw.json").write_text(json.dumps(RAW))
    with pytest.raises(ValueError, match="no ProfilerStep#7"):
        export(tmp_path / "raw.json", tmp_path / "rank3.json.gz", CALLS, 7, 3)
