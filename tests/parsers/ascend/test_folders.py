"""Ascend output folders, hand-made after the format sheets; expected values are those written in the builder."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import parsers
from parsers import ascend
from parsers.ascend.folder import Role, role_of
from replay.core.errors import RefusedError
from replay.graph.build import build
from replay.trace import CollectiveKind, EventKind, Trace
from tests.parsers.ascend import folders as make


def read(folder: Path) -> Trace:
    """The trace of a folder."""
    trace = parsers.read([folder])
    assert isinstance(trace, Trace)
    return trace


def event(trace: Trace, name: str) -> int:
    """Index of the only event of that name."""
    (found,) = [i for i in range(len(trace)) if trace.name_of(i) == name]
    return found


def launch_of(trace: Trace, name: str) -> str:
    """Name of the call that launched a device event."""
    device = event(trace, name)
    same = (trace.correlation == trace.correlation[device]) & (trace.kind == EventKind.RUNTIME)
    return trace.name_of(int(np.flatnonzero(same)[0]))


@pytest.mark.parametrize("level", [make.level0, make.level1, make.level2])
def test_every_level_gives_the_same_device_ops(tmp_path: Path, level: object) -> None:
    """Two kernels and one collective; waits, records, planes and bookkeeping are none."""
    make.write(tmp_path, 0, level())  # type: ignore[operator]
    trace = read(tmp_path)
    names = sorted(trace.name_of(i) for i in np.flatnonzero(trace.is_device).tolist())
    assert names == ["aclnnAdd_Add_Add", "aclnnMatmul_MatMulCommon_MatMulV3", "hcom_allReduce_"]
    assert int((trace.kind == EventKind.SYNC).sum()) == 4


def test_times_of_17_digits_are_exact(tmp_path: Path) -> None:
    """1717575960213957.957 us and 100 us more, to the nanosecond, and apart from each other."""
    make.write(tmp_path, 0, make.level1())
    trace = read(tmp_path)
    assert trace.epoch_ns == 1717575960213957957
    assert int(trace.start_ns[event(trace, "aclnnMatmul_MatMulCommon_MatMulV3")]) == 100_000
    assert int(trace.dur_ns[event(trace, "aten::mm")]) == 50_000


def test_a_collective_has_bytes_group_and_transfer(tmp_path: Path) -> None:
    """1000 x 4 bytes; the whole id of the group; the master plane's 200 + 80 us, no local copy; its stream."""
    make.write(tmp_path, 0, make.level1())
    trace = read(tmp_path)
    row = int(trace.comm[event(trace, "hcom_allReduce_")])
    c = trace.collectives
    assert (CollectiveKind(c.kind[row]), int(c.nbytes[row])) == (CollectiveKind.ALL_REDUCE, 4000)
    assert trace.groups[c.group[row]].name == make.GROUP
    assert trace.groups[c.group[row]].size == 4  # members 0, 1 and 3 show
    assert int(c.recorded_transfer_ns[row]) == 280_000
    assert trace.lanes[trace.lane[event(trace, "hcom_allReduce_")]].label == "stream 9"


def test_without_planes_communication_json_tells_the_transfer(tmp_path: Path) -> None:
    """Level 0 with the statistics of a later analysis."""
    make.write(tmp_path, 0, make.level0())
    trace = read(tmp_path)
    assert trace.collectives.recorded_transfer_ns.tolist() == [280_000]


def test_tables_add_facts_and_no_ops(tmp_path: Path) -> None:
    """The same events with and without kernel_details.csv; its facts reach the matmul."""
    make.write(tmp_path / "with", 0, make.level1())
    make.write(tmp_path / "without", 0, make.level1(), tables=False)
    full, bare = read(tmp_path / "with"), read(tmp_path / "without")
    for column in ("start_ns", "dur_ns", "kind", "lane", "correlation", "comm"):
        assert getattr(full, column).tolist() == getattr(bare, column).tolist()
    details = full.details
    assert details is not None and bare.details is None
    at = details.event.tolist().index(event(full, "aclnnMatmul_MatMulCommon_MatMulV3"))
    assert (details.op_type[at], details.core[at], details.input_shapes[at]) == ("MatMulV3", "AI_CORE", "64,32;32,16")
    assert details.cube_utilization_pct[at] == 71.5
    assert len(details) == 3


def test_launches_by_connection_and_by_arrow(tmp_path: Path) -> None:
    """CANN's rows launch where there are some; at level 0 the queue's taker does for the operator."""
    make.write(tmp_path / "one", 0, make.level1())
    make.write(tmp_path / "zero", 0, make.level0())
    assert launch_of(read(tmp_path / "one"), "aclnnMatmul_MatMulCommon_MatMulV3") == "Node@launch"
    assert launch_of(read(tmp_path / "zero"), "aclnnMatmul_MatMulCommon_MatMulV3") == "Dequeue@aclnnMatmul"
    assert launch_of(read(tmp_path / "zero"), "hcom_allReduce_") == "Dequeue@hcom_allReduce_"


def test_host_to_device_arrows_join_rows_without_connections(tmp_path: Path) -> None:
    """The tail of the arrow is the launching row."""
    bare = [*make.framework(), *make.cann(), *make.hardware(connections=False), *make.collective()]
    arrows = make.arrow("HostToDevice", "HostToDevice2", (make.CANN, 101, 65), (make.HARDWARE, 2, 100))
    make.write(tmp_path, 0, [*bare, *arrows])
    assert launch_of(read(tmp_path), "aclnnMatmul_MatMulCommon_MatMulV3") == "Node@launch"


def test_a_connection_of_any_number_is_no_error(tmp_path: Path) -> None:
    """The largest int64 on a call, and device rows that only arrows join: they need numbers of their own."""
    events = make.level1()
    for event in events:
        event.get("args", {}).pop("connection_id", None)
    call = next(event for event in events if event["pid"] == make.CANN and event["ph"] == "X")
    call["args"]["connection_id"] = 2**63 - 1
    assert len(read(make.write(tmp_path, 0, events))) == 23


def test_counts_of_ranks_that_began_apart_are_aligned(tmp_path: Path) -> None:
    """Rank 1 began to profile two operators later: its third is rank 0's fifth."""
    sizes = [10, 20, 30, 40, 50]
    for rank, skipped in ((0, 0), (1, 2)):
        events = make.level1()
        events = [e for e in events if e["pid"] != make.HCCL]
        events += make.named(make.HCCL, "Communication", {0: "Group 0 Communication"})
        for at, count in enumerate(sizes[skipped:]):
            begin = 302 + 100 * (at + skipped)
            args = {"data_type": "BFP16", "count": count, "connection_id": 500 + at}
            events.append(make.row(make.HCCL, 0, f"hcom_allGather__123_{at}_1", (begin, begin + 50), args=args))
        make.write(tmp_path, rank, events, tables=False)
    trace = read(tmp_path)
    of_size = {
        (int(trace.rank[i]), int(trace.collectives.nbytes[trace.comm[i]])): int(
            trace.collectives.sequence[trace.comm[i]]
        )
        for i in np.flatnonzero(trace.comm >= 0)
    }
    assert [of_size[0, 2 * size] == of_size[1, 2 * size] for size in sizes[2:]] == [True, True, True]


def test_a_fused_kernel_is_one_op_with_both_parts(tmp_path: Path) -> None:
    """MatmulAllReduce computes on its stream; the row of its communication describes it and is no second op."""
    fused = make.row(make.HARDWARE, 2, "MatmulAllReduce_1", (810, 910), args={"Task Type": "MIX_AIC"})
    args = {"data_type": "BFP16", "count": 512, "alg_type": "MESH"}
    part = make.row(make.HCCL, 0, "MatmulAllReduce_1Aicpu", (812, 905), args=args)
    make.write(tmp_path, 0, [*make.level1(), fused, part], tables=False)
    trace = read(tmp_path)
    row = int(trace.comm[event(trace, "MatmulAllReduce_1")])
    assert trace.collectives.kind[row] == CollectiveKind.ALL_REDUCE
    assert trace.collectives.nbytes[row] == 1024
    assert trace.health.skipped["communication rows of fused kernels"] == 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("MoeDistributeDispatchV2_1", CollectiveKind.DISPATCH),
        ("aclnnMoeDistributeCombine_MoeDistributeCombine", CollectiveKind.COMBINE),
        ("AllGatherMatmul_7", CollectiveKind.ALL_GATHER),
        ("MatmulReduceScatter", CollectiveKind.REDUCE_SCATTER),
    ],
)
def test_kernels_that_communicate_are_collectives(tmp_path: Path, name: str, kind: CollectiveKind) -> None:
    """By name, where nothing else describes them."""
    kernel = make.row(make.HARDWARE, 2, name, (810, 910), args={"Task Type": "MIX_AIV"})
    make.write(tmp_path, 0, [*make.level1(), kernel], tables=False)
    trace = read(tmp_path)
    assert trace.collectives.kind[trace.comm[event(trace, name)]] == kind


def test_derived_rows_are_a_cross_check(tmp_path: Path) -> None:
    """Overlap Analysis is summed up, not replayed."""
    make.write(tmp_path, 0, make.level1())
    assert read(tmp_path).metadata["overlap_analysis Computing (us)"] == "200.000"


def test_a_truncated_timeline_is_salvaged(tmp_path: Path) -> None:
    """Cut in the middle of an event, and with one comma missing: both are counted, the rest is read."""
    top = make.write(tmp_path, 0, make.level1(), tables=False)
    view = top / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    text = view.read_text(encoding="utf-8").replace("}, {", "} {", 1)
    view.write_text(text[: text.rindex("{") + 20], encoding="utf-8")
    trace = read(tmp_path)
    assert trace.health.clipped["missing commas added"] == 1
    assert trace.health.dropped["cut off in the middle of an event"] == 1
    assert len(trace) > 20


def test_a_timeline_cut_between_two_events_says_so(tmp_path: Path) -> None:
    """Nothing of an event is lost in view, but the list has no end; of two ranks the folder tells which."""
    folders = [make.write(tmp_path, rank, make.level1()) for rank in (0, 1)]
    view = folders[1] / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    content = view.read_bytes()
    view.write_bytes(content[: content.rindex(b"}") + 1])
    told = [warning for warning in read(tmp_path).health.warnings if "lacks the end of its list" in warning]
    assert len(told) == 1
    assert told[0].startswith(f"{folders[1].name}/trace_view.json lacks")


def test_a_timeline_saved_by_a_viewer_is_the_same(tmp_path: Path) -> None:
    """Viewers put the list of events into an object."""
    folder = make.write(tmp_path, 0, make.level1())
    before = read(folder)
    view = folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    view.write_text(f'{{"traceEvents": {view.read_text(encoding="utf-8")}}}', encoding="utf-8")
    after = read(folder)
    assert [after.name_of(row) for row in range(len(after))] == [before.name_of(row) for row in range(len(before))]
    assert after.kind.tolist() == before.kind.tolist()


def test_kernels_that_the_timeline_lost_are_missed(tmp_path: Path) -> None:
    """Device rows come last in the file, so that a cut leaves host calls only."""
    events = [event for event in make.level1() if event["pid"] not in (make.HARDWARE, make.HCCL)]
    warnings = read(make.write(tmp_path, 0, events)).health.warnings
    assert any(text.startswith("rank 0: the timeline lacks 3 of 3 kernels") for text in warnings)


def test_a_damaged_table_is_left_out_by_name(tmp_path: Path) -> None:
    """The statistics end in the middle: the transfer is what the streams show, everything else is there."""
    top = make.write(tmp_path, 0, make.level0())
    table = top / "ASCEND_PROFILER_OUTPUT" / "communication.json"
    table.write_text(table.read_text(encoding="utf-8")[:-3], encoding="utf-8")
    trace = read(tmp_path)
    assert trace.collectives.recorded_transfer_ns.tolist() == [200_000]
    assert [warning for warning in trace.health.warnings if warning.startswith("communication.json is damaged (")]


def test_files_are_told_by_content_and_ranks_by_their_settings(tmp_path: Path) -> None:
    """Renamed files, rank numbers in an order of their own."""
    for rank, name in ((5, "a"), (2, "b")):
        top = make.write(tmp_path, rank, make.level1(counter=rank), tables=False)
        output = top / "ASCEND_PROFILER_OUTPUT"
        (output / "trace_view.json").rename(output / f"{name}.dat")
    trace = read(tmp_path)
    assert trace.ranks == (2, 5)
    assert trace.format == "ascend"


def test_mindspore_folders_hold_the_same_files(tmp_path: Path) -> None:
    """``*_ascend_ms`` with a framework process of another name."""
    top = make.write(tmp_path, 3, make.level1())
    view = top / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    view.write_text(view.read_text(encoding="utf-8").replace('"Python"', '"MindSpore"'), encoding="utf-8")
    top.rename(tmp_path / "node_3_20240605_ascend_ms")
    trace = read(tmp_path)
    assert trace.ranks == (3,)
    assert trace.kind[event(trace, "aten::mm")] == EventKind.CPU_OP
    assert int(trace.is_device.sum()) == 3


def test_msprof_slices_are_one_timeline(tmp_path: Path) -> None:
    """Large timelines are cut in pieces; framework rows are absent."""
    output = tmp_path / "PROF_000001_20240605_ABC" / "mindstudio_profiler_output"
    output.mkdir(parents=True)
    events = [*make.cann(), *make.hardware(), *make.collective()]
    for part in (0, 1):
        text = json.dumps(events[part::2])
        (output / f"msprof_slice_{part}_20240605.json").write_text(text, encoding="utf-8")
    trace = read(tmp_path)
    assert int(trace.is_device.sum()) == 3
    assert len(trace.ranks) == 1


def test_without_a_timeline_replaying_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Tables alone order nothing, but say what ran: two kernels and the collective that both of them list."""
    top = make.write(tmp_path, 0, make.level1())
    (top / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").unlink()
    trace = read(tmp_path)
    assert sorted(trace.dur_ns.tolist()) == [100_000, 200_000, 396_000]
    assert trace.collectives.recorded_transfer_ns.tolist() == [280_000]
    with pytest.raises(RefusedError, match=r"no timeline .*kernel table.*trace_view\.json"):
        build(trace)


def test_a_recording_that_was_not_analysed_says_how(tmp_path: Path) -> None:
    """The profiler leaves raw data and its settings, and writes the rest when it is told to."""
    top = make.write(tmp_path, 0, make.level1())
    shutil.rmtree(top / "ASCEND_PROFILER_OUTPUT")
    with pytest.raises(RefusedError, match=r"not analysed yet: run torch_npu.profiler.profiler.analyse"):
        parsers.read([tmp_path])


def test_step_tables_are_read_with_their_line_ends(tmp_path: Path) -> None:
    """CRLF, an empty step, N/A; us become ms."""
    top = make.write(tmp_path, 0, make.level1(), tables=False)
    text = "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Preparing\r\n0,,300.5,2000,N/A,17\r\n"
    (top / "ASCEND_PROFILER_OUTPUT" / "steps.csv").write_text(text, encoding="utf-8", newline="")
    (row,) = read(tmp_path).step_table
    assert (row.rank, row.step) == (0, "")
    assert dict(row.parts_ms) == {"Computing": 0.3005, "Communication(Not Overlapped)": 2.0, "Preparing": 0.017}


def test_devices_of_one_timeline_have_streams_of_their_own(tmp_path: Path) -> None:
    """Stream 2 of device 0 and of device 1 are two lanes."""
    other = make.HARDWARE + 32
    kernel = make.row(other, 2, "Cast_1", (400, 410), args={"Task Type": "AI_VECTOR_CORE"})
    events = [*make.level1(), *make.named(other, "Ascend Hardware", {2: "Stream 2"}, "NPU 0"), kernel]
    make.write(tmp_path, 0, events, tables=False)
    trace = read(tmp_path)
    lanes = [trace.lanes[trace.lane[event(trace, name)]] for name in ("Cast_1", "aclnnAdd_Add_Add")]
    assert [(lane.device, lane.stream) for lane in lanes] == [(0, 2), (1, 2)]


def test_the_partner_of_a_send_is_a_global_rank(tmp_path: Path) -> None:
    """Sub-tasks number ranks inside of the group; the metadata translates: member 1 of (4, 12) is rank 12."""
    hccl = make.named(make.HCCL, "HCCL", {0: "Group 0 Communication", 1: "Plane 0"})
    args = {"data_type": "FP16", "count": 8}
    send = make.row(make.HCCL, 0, "hcom_send__123_4_1", (302, 350), args=args)
    task = make.row(make.HCCL, 1, "Memcpy", (310, 340), args={"src rank": 0, "dst rank": 1})
    events = [*make.framework(), *make.cann(), *make.hardware(), *hccl, send, task]
    top = make.write(tmp_path, 4, events, tables=False)
    info = {"parallel_group_info": {make.GROUP: {"group_name": "pp", "group_rank": 0, "global_ranks": [4, 12]}}}
    (top / "profiler_metadata.json").write_text(json.dumps(info), encoding="utf-8")
    trace = read(tmp_path)
    row = int(trace.comm[event(trace, "hcom_send_")])
    assert (CollectiveKind(trace.collectives.kind[row]), int(trace.collectives.peer[row])) == (CollectiveKind.SEND, 12)
    assert trace.groups[trace.collectives.group[row]].description == "pp"


def test_without_settings_the_device_tells_the_rank(tmp_path: Path) -> None:
    """A timeline alone, of the device labelled NPU 1."""
    (tmp_path / "view.json").write_text(json.dumps(make.level1()), encoding="utf-8")
    assert read(tmp_path).ranks == (1,)


def test_a_gpu_trace_of_operators_is_none_of_ascends() -> None:
    """Kineto writes the numbers of backward nodes first in an operator's args, too."""
    event = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1.5,"dur":1,"args":{"Sequence number":7}}'
    assert role_of(b'{"schemaVersion":1,"traceEvents":[' + event + b"]}") is None


@pytest.mark.parametrize(
    "sign",
    ['"Record function id":0', '"Ev Idx":3', '"External id":4', '"x":{"cat":"kernel"}', '"x":{"cat":"cuda_runtime"}'],
)
def test_a_bare_list_of_a_gpu_trace_is_none_of_ascends(sign: str) -> None:
    """Some tools save the events of Kineto as a list."""
    event = '[{"ph":"X","cat":"cpu_op","name":"a","ts":1.5,"dur":1,"args":{"Sequence number":7%s}}]'
    assert role_of((event % f",{sign}").encode()) is None
    assert role_of((event % "").encode()) is Role.TIMELINE


def test_a_gpu_trace_with_arguments_of_its_job_is_none_of_ascends() -> None:
    """Programs may add what they like before the events, and a list of groups may be longer than the head."""
    assert role_of(b'{"schemaVersion":1,"distributed_args":{"world_size":8},"distributedInfo":{"pg_config":[') is None
    assert role_of(b'{"distributed_args":{"world_size":8}}') is Role.METADATA


def test_the_map_of_the_package_names_every_module() -> None:
    """And none that is gone."""
    modules = {path.stem for path in Path(ascend.__path__[0]).glob("*.py")} - {"__init__"}
    table = (ascend.__doc__ or "").partition("Where things are:")[2]
    assert set(re.findall(r"``([a-z_]+)``", table)) == modules
