"""Folders of msprof, MindSpore and msprof-analyze, one test per layout; values are those of the builders."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.core.errors import RefusedError, TraceError
from replay.graph.build import build
from replay.report.accuracy import replay_error_pct
from replay.report.ascend import ascend_facts
from replay.simulate.engine import simulate
from tests.parsers.ascend import folders as make
from tests.parsers.ascend import layouts
from tests.parsers.ascend.layouts import device_ops, msprof_events, old_mindspore, prof, put, read

STAMP = "20240605101010"


def level_none() -> list[make.Event]:
    """What is left without any device level: the framework's rows."""
    return make.framework()


LEVELS = [make.level0, make.level1, make.level2]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("suffix", ["ascend_pt", "ascend_ms"])
def test_every_level_of_both_frameworks_replays(
    tmp_path: Path, level: Callable[[], list[make.Event]], suffix: str
) -> None:
    """Within 3 % of the step; MindSpore's folder has tables of its own, which say nothing of ops."""
    top = make.write(tmp_path, 0, level())
    if suffix == "ascend_ms":
        put(top / "ASCEND_PROFILER_OUTPUT" / "dataset.csv", "Start Time(us),End Time(us),Event\n1,2,x\n")
        put(top / "ASCEND_PROFILER_OUTPUT" / "minddata_pipeline_raw_0.csv", "op_id,op_type,num_workers\n0,Batch,4\n")
    top = top.rename(tmp_path / f"node_0_20240605_{suffix}")
    graph = build(read(top))
    assert abs(replay_error_pct(graph, simulate(graph))) <= 3


def test_a_recording_without_the_device_is_said_to_have_none(tmp_path: Path) -> None:
    """Level_none keeps operators of the host; nothing ran on any device."""
    make.write(tmp_path, 0, level_none(), tables=False)
    trace = read(tmp_path)
    assert not trace.is_device.any()
    assert [text for text in trace.health.warnings if text.startswith("rank 0: the device was not recorded")]


def test_msprof_writes_a_new_export_beside_the_old(tmp_path: Path) -> None:
    """The newest counts once; flat statistics and the summary of its operators join."""
    top = prof(tmp_path, 1)
    for stamp in (STAMP, "20250101000000"):
        put(top / "mindstudio_profiler_output" / f"msprof_{stamp}.json", msprof_events())
        put(
            top / "mindstudio_profiler_output" / f"op_summary_{stamp}.csv", layouts.op_summary() + "\n" * len(stamp[:4])
        )
    put(top / "analyze" / "communication.json", layouts.flat_communication(make.ts(302)))
    trace = read(top)
    begin = device_ops(trace)[0][2]
    assert [(name, start - begin) for _, name, start, _ in device_ops(trace)] == [
        ("aclnnMatmul_MatMulCommon_MatMulV3", 0),
        ("hcom_allReduce_", 202_000),
        ("aclnnAdd_Add_Add", 602_000),
    ]
    assert trace.details is not None and len(trace.details) == 3
    assert [group.name for group in trace.groups] == [make.GROUP]
    graph = build(trace)
    assert abs(replay_error_pct(graph, simulate(graph))) <= 3


def test_slices_of_ten_and_more_are_in_order(tmp_path: Path) -> None:
    """slice_10 comes after slice_2, and a whole file of an export before is left out."""
    output = prof(tmp_path, 1) / "mindstudio_profiler_output"
    events = msprof_events()
    for part in range(12):
        put(output / f"msprof_slice_{part}_20250101000000.json", [*make.npu_arrows(), *events[part::12]])
    put(output / f"msprof_{STAMP}.json", msprof_events())
    trace = read(tmp_path)
    assert int(trace.is_device.sum()) == 3
    assert trace.health.skipped["files that repeat others of their rank"] == 1


def test_recordings_of_one_job_are_ranks_by_their_devices(tmp_path: Path) -> None:
    """Two PROF folders, of devices 5 and 2."""
    for number, device in ((1, 5), (2, 2)):
        put(prof(tmp_path, number) / "mindstudio_profiler_output" / f"msprof_{STAMP}.json", msprof_events(device))
    assert read(tmp_path).ranks == (2, 5)


def test_folders_above_tell_ranks_before_devices_do(tmp_path: Path) -> None:
    """Two nodes have a device 0 each."""
    for rank in (0, 8):
        put(prof(tmp_path / f"rank_{rank}", 1) / "mindstudio_profiler_output" / f"msprof_{STAMP}.json",
            [*msprof_events(0), make.row(make.CANN, 101, "Node@launch", (990, 990 + rank))])  # fmt: skip
    assert read(tmp_path).ranks == (0, 8)


def test_older_msprof_has_a_folder_for_each_device(tmp_path: Path) -> None:
    """One file per kind of rows beside the whole; summaries by device, model and iteration."""
    for device in (0, 3):
        top = prof(tmp_path, 1) / f"device_{device}"
        put(top / "timeline" / f"msprof_{device}_1_1.json", msprof_events(device))
        put(top / "timeline" / f"hccl_{device}_1_1.json", [*make.collective(), {"name": f"of {device}"}])
        put(top / "summary" / f"op_summary_{device}_1_1.csv", layouts.op_summary(device))
    trace = read(tmp_path)
    assert trace.ranks == (0, 3)
    assert int(trace.is_device.sum()) == 2 * 3
    assert trace.details is not None and len(trace.details) == 2 * 3


def test_summaries_of_several_devices_are_several_ranks(tmp_path: Path) -> None:
    """One op_summary, two devices; without a timeline it can be looked at only."""
    text = layouts.op_summary(0) + layouts.op_summary(6)
    put(prof(tmp_path, 1) / "mindstudio_profiler_output" / f"op_summary_{STAMP}.csv", text)
    trace = read(tmp_path)
    assert trace.ranks == (0, 6)
    assert trace.health.dropped["repeated header rows"] == 1
    assert [name for rank, name, *_ in device_ops(trace) if rank == 6] == [
        "aclnnMatmul_MatMulCommon_MatMulV3", "hcom_allReduce_", "aclnnAdd_Add_Add",
    ]  # fmt: skip
    with pytest.raises(RefusedError, match=r"no timeline \(1 kernel table\)"):
        build(trace)


def test_a_raw_folder_beside_the_output_says_the_same_again(tmp_path: Path) -> None:
    """msprof's summary below a ``*_ascend_pt`` adds no kernels to those of kernel_details."""
    top = make.write(tmp_path, 0, make.level1())
    raw = prof(top, 1) / "mindstudio_profiler_output"
    put(raw / f"op_summary_{STAMP}.csv", layouts.op_summary())
    put(raw / f"msprof_{STAMP}.json", msprof_events())
    put(prof(top, 1) / "analyze" / "communication.json", layouts.flat_communication(make.ts(302)))
    trace = read(tmp_path)
    assert trace.details is not None and len(trace.details) == 3
    assert trace.health.skipped["files that repeat others of their rank"] == 3


def test_task_times_alone_tell_kernels(tmp_path: Path) -> None:
    """Waits of streams are no work."""
    header = "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"
    rows = [f"0,Add_1,KERNEL_AIVEC,7,1,2.5,{make.ts(10)}\t,{make.ts(12.5)}\t",
            f"0,EVENT_WAIT,EVENT_WAIT,7,2,9,{make.ts(13)}\t,{make.ts(22)}\t"]  # fmt: skip
    put(prof(tmp_path, 1) / "mindstudio_profiler_output" / f"task_time_{STAMP}.csv", header + "\n".join(rows) + "\n")
    trace = read(tmp_path)
    assert [(name, dur) for _, name, _, dur in device_ops(trace)] == [("Add_1", 2500)]
    assert trace.epoch_ns == 1717575960213967957
    assert trace.lanes[int(trace.lane[0])].stream == 7


def test_mindspore_before_2_4_keeps_all_ranks_in_one_folder(tmp_path: Path) -> None:
    """Compute ops with durations in ms, steps in ticks of 10 ns, and a world in the settings."""
    for rank in (0, 1):
        top = old_mindspore(tmp_path, rank)
        drawn = {"name": "Default/network/MatMul-op1", "ph": "X", "pid": 0, "tid": 2, "ts": 1000.5, "dur": 200.0}
        put(top / f"ascend_timeline_display_{rank}.json", [drawn, drawn | {"ts": 2000.5 + rank}])
    trace = read(tmp_path)
    assert (trace.ranks, trace.world_size) == ((0, 1), 2)
    assert [(rank, name, dur) for rank, name, _, dur in device_ops(trace)] == [
        (0, "Default/network/MatMul-op1", 200_000), (0, "Default/network/Add-op2", 100_000),
        (1, "Default/network/MatMul-op1", 200_000), (1, "Default/network/Add-op2", 100_000),
    ]  # fmt: skip
    assert [(row.step, dict(row.parts_ms)["total"]) for row in trace.step_table if row.rank == 0] == [("1", 1.0)]
    with pytest.raises(RefusedError, match="2 task table"):
        build(trace)


def test_step_tables_alone_are_looked_at(tmp_path: Path) -> None:
    """No op is known, the steps are."""
    text = f"Device_id,Step,{layouts.STEP}\r\n0,,1500.0,200.0,50.0,250.0,30.0,1280.0,0\r\n"
    put(tmp_path / "node_4_x_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv", text)
    put(tmp_path / "node_4_x_ascend_pt" / "profiler_info_4.json", {"rank_id": "4", "torch_npu_version": "2.1"})
    trace = read(tmp_path)
    assert len(trace) == 0
    assert [(row.rank, row.step, dict(row.parts_ms)["Computing"]) for row in trace.step_table] == [(4, "", 1.5)]
    with pytest.raises(RefusedError, match="step table"):
        build(trace)


def test_empty_files_beside_good_ones_are_named(tmp_path: Path) -> None:
    """A rank that wrote nothing is not missed in silence."""
    make.write(tmp_path, 0, make.level1())
    put(tmp_path / "node_1_x_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json", "")
    trace = read(tmp_path)
    assert trace.ranks == (0,)
    assert "trace_view.json: empty (0 bytes) and left out" in trace.health.warnings


def test_nothing_but_empty_files_is_an_error(tmp_path: Path) -> None:
    """With the reason."""
    for name in ("trace_view.json", "kernel_details.csv"):
        put(tmp_path / "node_1_x_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / name, "")
    with pytest.raises(TraceError, match=r"2 empty files \(0 bytes\)"):
        parsers.read([tmp_path])


def test_msprof_says_for_each_device_which_rank_it_was(tmp_path: Path) -> None:
    """Two recordings of one device each; and one of two devices, whose summary tells the rows apart."""
    for number, rank in ((1, 9), (2, 4)):
        top = prof(tmp_path / "one", number)
        put(top / "mindstudio_profiler_output" / f"msprof_{STAMP}.json", msprof_events(number))
        put(
            top / f"device_{number}" / f"info.json.{number}",
            {"platform_version": "5", "DeviceInfo": [], "rank_id": rank},
        )
        put(top / "host" / "info.json", {"platform_version": "5", "DeviceInfo": [], "rank_id": -1})
    assert read(tmp_path / "one").ranks == (4, 9)
    top = prof(tmp_path / "two", 1)
    summary = layouts.op_summary(0) + layouts.op_summary(1)
    put(top / "mindstudio_profiler_output" / f"op_summary_{STAMP}.csv", summary)
    for device, rank in ((0, 12), (1, 3)):
        put(top / f"device_{device}" / f"info.json.{device}",
            {"platform_version": "5", "DeviceInfo": [{"ai_core_num": 24}], "rank_id": rank})  # fmt: skip
    assert read(tmp_path / "two").ranks == (3, 12)


def test_summaries_alone_are_looked_at(tmp_path: Path) -> None:
    """Two ranks with sums only: counts and totals add up, extremes are those of all, a row without a sum is none."""
    operators = "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
    calls = "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance\n"
    collectives = "Device_id,OP Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
    for rank in (0, 1):
        output = tmp_path / f"node_{rank}_x_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        rows = f"0,MatMulV3,AI_CORE,4,{1000 + 1000 * rank},{100 + rank},250,400,60\n0,Add,AI_VECTOR_CORE,N/A,,,,,\n"
        put(output / "op_statistic.csv", operators + rows)
        put(output / "api_statistic.csv", calls + f"0,acl,aclnnMatmul,{300 + rank},3,100,90,110,1.5\n")
        put(output / "communication_statistic.csv", collectives + f"0,hcom_allReduce_,2,{800 + rank},300,400,500,100\n")
        put(output.parent / f"profiler_info_{rank}.json", {"rank_id": rank, "torch_npu_version": "2.1"})
    trace = read(tmp_path)
    facts = ascend_facts(trace)
    assert facts is not None
    (matmul,) = facts.operators
    assert (matmul.op_type, matmul.core, matmul.durations.count, matmul.durations.total_ms) == (
        "MatMulV3", "AI_CORE", 8, 3.0,
    )  # fmt: skip
    assert (matmul.durations.min_us, matmul.durations.avg_us, matmul.durations.max_us) == (100, 375, 400)
    assert [(row.operator, row.durations.count) for row in facts.communication] == [("hcom_allReduce_", 4)]
    assert [(row.level, row.api, row.durations.total_ms) for row in facts.host_api] == [("acl", "aclnnMatmul", 0.601)]
    assert trace.health.dropped["summary table rows without a count or a sum"] == 2
    with pytest.raises(RefusedError, match="6 summary table"):
        build(trace)


@pytest.mark.parametrize(("folders", "ranks"), [(("2", "10"), (2, 10)), (("run 2", "run 10"), (0, 1))])
def test_folders_are_in_the_order_of_their_numbers(
    tmp_path: Path, folders: tuple[str, str], ranks: tuple[int, ...]
) -> None:
    """A number alone is the rank; others are counted, and 2 comes before 10."""
    for at, name in enumerate(folders):
        events = json.loads(json.dumps(make.level1(counter=at)).replace("NPU 1", "NPU"))
        events.append(make.row(make.HOST, 100, f"in {name}", (990, 995), cat="cpu_op"))
        put(tmp_path / name / "ASCEND_PROFILER_OUTPUT" / "trace_view.json", events)
    trace = read(tmp_path)
    assert trace.ranks == ranks
    marks = [trace.name_of(i) for i in np.argsort(trace.rank, kind="stable") if trace.name_of(int(i)).startswith("in ")]
    assert marks == [f"in {name}" for name in folders]


def test_a_folder_without_a_rank_is_named(tmp_path: Path) -> None:
    """Its device is that of the other rank, so nothing tells which rank it is."""
    for rank in (0, 1):
        top = make.write(tmp_path, rank, make.level1(counter=rank), counter=rank)
    (top / "profiler_info_1.json").unlink()
    with pytest.raises(TraceError, match="nothing in node_1_20240605_ascend_pt tells its rank"):
        parsers.read([tmp_path])


def test_two_recordings_of_a_rank_are_named(tmp_path: Path) -> None:
    """A schedule that repeats leaves a folder for each time."""
    for at, stamp in enumerate(("20240605", "20240606")):
        top = make.write(tmp_path / stamp, 0, make.level1(counter=at), counter=at)
        put(top / "profiler_info_0.json", {"rank_id": 0, "torch_npu_version": "2.1", "end_info": {"at": stamp}})
        top.rename(tmp_path / f"node_{stamp}_ascend_pt")
    with pytest.raises(TraceError, match="node_20240605_ascend_pt and node_20240606_ascend_pt are both of rank 0"):
        parsers.read([tmp_path])


def test_settings_that_are_the_same_on_every_rank_are_no_repeats(tmp_path: Path) -> None:
    """Every rank of a job writes the same metadata, and empty tables."""
    for rank in (0, 1):
        top = make.write(tmp_path, rank, make.level1(counter=rank), tables=False)
        (top / "profiler_metadata.json").write_text('{"distributed_args": {"world_size": 2}}', encoding="utf-8")
    trace = read(tmp_path)
    assert trace.ranks == (0, 1)
    assert "files given twice" not in trace.health.skipped
    assert not [warning for warning in trace.health.warnings if "same content" in warning]


def test_settings_that_are_the_same_in_every_archive_are_no_repeats(tmp_path: Path) -> None:
    """One archive a rank, each with the same folder inside; without the settings a rank would lose its groups."""
    for rank in (0, 1):
        top = make.write(tmp_path / "all", rank, make.level1(counter=rank), tables=False)
        put(top / "profiler_metadata.json", {"distributed_args": {"world_size": 2}})
        with tarfile.open(tmp_path / f"node{rank}.tar.gz", "w:gz") as archive:
            archive.add(top, "profile_ascend_pt")
        shutil.rmtree(top)
    trace = read(tmp_path)
    assert (trace.ranks, trace.world_size) == ((0, 1), 2)
    assert "files given twice" not in trace.health.skipped


def test_tables_beside_several_timelines_are_counted(tmp_path: Path) -> None:
    """Ranks put into one folder: nothing tells whose kernels and statistics these are."""
    for rank in (0, 1):
        top = make.write(tmp_path / "apart", rank, make.level1(counter=rank), tables=False)
        put(tmp_path / "all" / f"view_{rank}.json", (top / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_bytes())
    put(tmp_path / "all" / "kernel_details.csv", layouts.kernels())
    put(tmp_path / "all" / "communication.json", make.communication())
    trace = read(tmp_path / "all")
    assert (trace.ranks, trace.details) == ((0, 1), None)
    assert trace.health.skipped["files beside several timelines, which do not tell whose they are"] == 2


def test_a_rank_that_has_only_steps_beside_timelines_is_counted(tmp_path: Path) -> None:
    """Without a timeline it is no part of the trace, whichever tables it has."""
    make.write(tmp_path, 0, make.level1())
    put(
        tmp_path / "node_4_x_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv",
        f"Step,{layouts.STEP}\n3,1\n",
    )
    trace = read(tmp_path)
    assert trace.ranks == (0,)
    assert "1 ranks have tables but no timeline and were left out" in trace.health.warnings
