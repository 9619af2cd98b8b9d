"""Exported slices: the timeline's own, on tracks without overlap, the same in both file formats."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from parsers import read
from replay.graph.build import build
from replay.graph.types import Graph, OpKind, Rule
from replay.report import chrome, perfetto
from replay.report.slices import Run, Slices, collect
from replay.simulate.engine import simulate
from replay.trace import CollectiveKind, Group
from replay.trace import Trace as TimedTrace
from tests.synthetic import Comm, Op, graph_of, graphs

Row = tuple[str, str, str, int, int]  # process, track, name, start, end

STEP = graph_of(
    [
        Op("begin", 0, kind=OpKind.MARK),
        Op("gemm", 30),
        Op("gemm", 100, rank=1),
        Op("ar", 0, [1], kind=OpKind.ARRIVAL, comm=0),
        Op("ar", 0, [2], rank=1, kind=OpKind.ARRIVAL, comm=1),
        Op("ar", 20, [3, 4], kind=OpKind.TRANSFER, comm=0, rule=Rule.COLLECTIVE),
        Op("ar", 20, [3, 4], rank=1, kind=OpKind.TRANSFER, comm=1, rule=Rule.COLLECTIVE),
        Op("next stage", 5, [5], rank=2, rule=Rule.P2P),
        Op("event", 0, [7], rank=2),
    ],
    comms=[Comm(CollectiveKind.ALL_REDUCE, 0, 64), Comm(CollectiveKind.ALL_REDUCE, 0)],
    groups=[Group("1", "TENSOR_MODEL_PARALLEL_GROUP")],
)
STEP_ROWS: list[Row] = [
    ("rank 0 replayed", "stream 7", "gemm", 0, 30),
    ("rank 0 replayed", "stream 7", "ar", 30, 120),
    ("rank 1 replayed", "stream 7", "gemm", 0, 100),
    ("rank 1 replayed", "stream 7", "ar", 100, 120),
    ("rank 2 replayed", "stream 7", "next stage", 120, 125),
    ("rank 2 replayed", "stream 7", "event", 125, 125),
]
STEP_ARROWS = {("ar", 100, "ar", 30), ("ar", 30, "next stage", 120)}


def replayed(graph: Graph, label: str = "replayed") -> Run:
    return Run(label, graph, simulate(graph))


def rows_of(slices: Slices) -> list[Row]:
    tracks = [slices.tracks[i] for i in slices.track]
    return [
        (track.process, track.name, slices.names[name], int(start), int(end))
        for track, name, start, end in zip(tracks, slices.name, slices.start_ns, slices.end_ns, strict=True)
    ]


def read_perfetto(path: Path) -> tuple[list[Row], set[tuple[str, int, str, int]]]:
    """Slices and arrows of a ``.pftrace``; fails on an end without begin and on a begin inside another slice."""
    trace = Trace.FromString(path.read_bytes())
    processes, tracks, open_slice = {}, {}, {}
    rows, leaves, arrives = [], {}, {}
    for packet in trace.packet:
        descriptor, event = packet.track_descriptor, packet.track_event
        if packet.HasField("track_descriptor") and descriptor.HasField("process"):
            processes[descriptor.uuid] = descriptor.process.process_name
        elif packet.HasField("track_descriptor"):
            tracks[descriptor.uuid] = (processes[descriptor.parent_uuid], descriptor.thread.thread_name)
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_slice
            open_slice[event.track_uuid] = (event.name, packet.timestamp)
            leaves.update(dict.fromkeys(event.flow_ids, (event.name, packet.timestamp)))
        else:
            name, start = open_slice.pop(event.track_uuid)
            rows.append((*tracks[event.track_uuid], name, start, packet.timestamp))
            arrives.update(dict.fromkeys(event.terminating_flow_ids, (name, start)))
    assert not open_slice
    return rows, {(*leaves[flow], *arrives[flow]) for flow in arrives}


def read_chrome(path: Path) -> list[Row]:
    """Slices of a Chrome JSON trace."""
    events = orjson.loads(path.read_bytes())["traceEvents"]
    named = {(e["name"], e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["name"].endswith("_name")}
    return [
        (
            named["process_name", e["pid"], None],
            named["thread_name", e["pid"], e["tid"]],
            e["name"],
            round(e["ts"] * 1000),
            round((e["ts"] + e["dur"]) * 1000),
        )
        for e in events
        if e["ph"] == "X"
    ]


def test_slices_of_a_step() -> None:
    slices = collect([replayed(STEP)])
    assert rows_of(slices) == STEP_ROWS
    assert list(slices.args())[1] == {
        "kind": "arrival", "evidence": "measured", "collective": "all_reduce", "wait_ns": 70, "transfer_ns": 20,
        "bytes": 64, "group": "TENSOR_MODEL_PARALLEL_GROUP",
    }  # fmt: skip


def test_perfetto_holds_the_same_slices_and_arrows(tmp_path: Path) -> None:
    perfetto.write(collect([replayed(STEP)]), tmp_path / "step.pftrace")
    assert read_perfetto(tmp_path / "step.pftrace") == (STEP_ROWS, STEP_ARROWS)


def test_chrome_holds_the_same_slices(tmp_path: Path) -> None:
    chrome.write(collect([replayed(STEP)]), tmp_path / "step.json")
    assert read_chrome(tmp_path / "step.json") == STEP_ROWS


def test_chrome_arrows_bind_inside_their_slices(tmp_path: Path) -> None:
    """An arrow from the late member, 100, ends in the waiting one, 30-120, at 100."""
    chrome.write(collect([replayed(STEP)]), tmp_path / "step.json")
    events = orjson.loads((tmp_path / "step.json").read_bytes())["traceEvents"]
    flows = [(e["id"], e["ph"], e["pid"], e["ts"]) for e in events if e["ph"] in "sf"]
    assert sorted(flows) == [(1, "f", 3, 0.12), (1, "s", 1, 0.03), (2, "f", 1, 0.1), (2, "s", 2, 0.1)]


def test_runs_stand_side_by_side_per_rank() -> None:
    slices = collect([replayed(STEP, "measured"), replayed(STEP, "predicted")])
    assert list(dict.fromkeys(track.process for track in slices.tracks))[:3] == [
        "rank 0 measured", "rank 0 predicted", "rank 1 measured",
    ]  # fmt: skip
    assert len(slices) == 2 * len(STEP_ROWS)


def test_no_slice_begins_before_zero() -> None:
    """Work from before the step moves all runs alike: 10 ns back in one are 10 ns forth in both."""
    early = graph_of([Op("left over", 5, ready=-10), Op("gemm", 3, ready=2)])
    late = graph_of([Op("gemm", 3, ready=1)])
    rows = rows_of(collect([replayed(early, "measured"), replayed(late)]))
    assert [row[2:] for row in rows] == [("left over", 0, 5), ("gemm", 12, 15), ("gemm", 11, 14)]


def test_an_overlap_goes_to_a_second_track() -> None:
    graph = graph_of([Op("a", 10), Op("b", 10, ready=5), Op("c", 10, ready=10), Op("inside", 0, ready=3)])
    tracks = {name: track for _, track, name, _, _ in rows_of(collect([replayed(graph)]))}
    assert tracks == {"a": "stream 7", "inside": "stream 7 (2)", "b": "stream 7 (2)", "c": "stream 7"}


@pytest.mark.shared
@pytest.mark.parametrize("name", ["deepseek_v3_train_h800.json", "dlrm_kineto.tar.gz"])
def test_real_timelines_survive_both_formats(name: str, shared_data: Path, tmp_path: Path) -> None:
    """Every device op of the timeline, a collective as one, comes back with its own times."""
    trace = read([shared_data / "kineto" / name])
    assert isinstance(trace, TimedTrace)
    run = replayed(build(trace))
    slices = collect([run])
    perfetto.write(slices, tmp_path / "x.pftrace")
    chrome.write(slices, tmp_path / "x.json")
    rows, _ = read_perfetto(tmp_path / "x.pftrace")
    assert rows == read_chrome(tmp_path / "x.json")
    kernels = np.isin(run.graph.kind, (OpKind.COMPUTE, OpKind.MEMCPY, OpKind.MEMSET))
    times = Counter(zip(run.timeline.start_ns[kernels].tolist(), run.timeline.end_ns[kernels].tolist(), strict=True))
    assert not times - Counter((start, end) for *_, start, end in rows)


@given(graphs())
def test_no_slice_is_lost_and_none_overlaps(graph: Graph) -> None:
    timeline = simulate(graph)
    slices = collect([Run("replayed", graph, timeline)])
    kept = sorted(zip(slices.start_ns.tolist(), slices.end_ns.tolist(), strict=True))
    assert kept == sorted(zip(timeline.start_ns.tolist(), timeline.end_ns.tolist(), strict=True))
    by_track = defaultdict(list)
    for process, track, _, start, end in rows_of(slices):
        by_track[process, track].append((start, end))
    for spans in by_track.values():
        starts, ends = np.array(spans).T
        assert (ends[:-1] <= starts[1:]).all()
