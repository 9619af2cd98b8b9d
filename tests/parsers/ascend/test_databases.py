"""Sqlite exports of Ascend's profilers: the same trace as the text of the same run, and what is done about damage."""

from __future__ import annotations

import gzip
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from replay.core.errors import RefusedError, TraceError
from replay.graph.build import build
from replay.report.accuracy import replay_error_pct
from replay.simulate.engine import simulate
from replay.trace import EventKind, MemoryPeak, Trace
from tests.parsers.ascend import databases as db
from tests.parsers.ascend import folders as make
from tests.parsers.ascend import timelines as variants
from tests.parsers.ascend.databases import change, export, read
from tests.parsers.ascend.layouts import cluster_steps, of_ranks

COLUMNS = ("start_ns", "dur_ns", "kind", "rank", "sequence", "stream", "nbytes")
OF_COMMS = ("kind", "group", "in_nbytes", "out_nbytes", "peer", "sequence", "recorded_transfer_ns")
OF_DETAILS = (
    "event", "op_type", "input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes",
    "output_formats",
)  # fmt: skip


def calls(trace: Trace) -> list[str]:
    """Names of all events; older timelines call the level of communication Hccl."""
    names = (trace.name_of(event) for event in range(len(trace)))
    return [name.replace("Hccl@", "Communication@") for name in names]


def lanes(trace: Trace) -> list[tuple[object, ...]]:
    """Lane of every event."""
    found = [trace.lanes[lane] for lane in trace.lane.tolist()]
    return [(lane.rank, lane.is_device, lane.tid, lane.stream, lane.device) for lane in found]


def pairs(trace: Trace, column: str) -> list[int]:
    """The first event of its rank that has the same number as each one, -1 where nobody else has it."""
    keys = list(zip(trace.rank.tolist(), getattr(trace, column).tolist(), strict=True))
    found: dict[tuple[int, int], list[int]] = {}
    for at, key in enumerate(keys):
        found.setdefault(key, []).append(at)
    return [found[key][0] if key[1] >= 0 and len(found[key]) > 1 else -1 for key in keys]


def texts(codes: Iterable[int], table: Sequence[str]) -> list[str]:
    """What codes stand for."""
    return [table[code] if code >= 0 else "" for code in codes]


def assert_same(text: Trace, database: Trace) -> None:
    """Event by event, with all that is known of collectives and kernels."""
    assert calls(text) == calls(database)
    for column in COLUMNS:
        assert getattr(text, column).tolist() == getattr(database, column).tolist(), column
    for column in ("correlation", "external_id"):
        assert pairs(text, column) == pairs(database, column), column
    assert lanes(text) == lanes(database)
    assert texts(text.shape, text.shapes) == texts(database.shape, database.shapes)
    assert texts(text.dtype, text.dtypes) == texts(database.dtype, database.dtypes)
    assert text.comm.tolist() == database.comm.tolist()
    assert (text.groups, text.world_size, text.epoch_ns) == (database.groups, database.world_size, database.epoch_ns)
    for column in OF_COMMS:
        ours, theirs = getattr(text.collectives, column), getattr(database.collectives, column)
        assert np.array_equal(ours, theirs), column
    assert text.collectives.dtype == database.collectives.dtype
    assert text.collectives.algorithm == database.collectives.algorithm


def assert_same_details(text: Trace, database: Trace) -> None:
    """Rows of the kernel tables."""
    assert text.details is not None and database.details is not None
    for column in OF_DETAILS:
        assert list(getattr(text.details, column)) == list(getattr(database.details, column)), column
    ours, theirs = text.details.counters, database.details.counters
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        computing = np.array([not name.startswith("hcom") for name in text.details.op_type])
        for column in ("blocks", "cube_ns", "cube_cycles", "mac_ratio", "hf32"):
            expected, found = getattr(ours, column)[computing], getattr(theirs, column)[computing]
            assert np.array_equal(expected, found, equal_nan=column == "mac_ratio"), column


@pytest.mark.parametrize("level", [make.level0, make.level1, make.level2])
def test_text_and_export_of_a_run_are_the_same_trace(level: Callable[[], list[db.Event]], tmp_path: Path) -> None:
    """At every level."""
    text = make.write(tmp_path / "text", 0, level())
    db.of_folder(text, 0, tmp_path / "db")
    assert_same(read(text), read(tmp_path / "db"))
    assert_same_details(read(text), read(tmp_path / "db"))


def test_the_export_of_a_real_run_is_the_same_trace(shared_data: Path, tmp_path: Path) -> None:
    """Both ranks of a level-1 profile: events, collectives with their times on the wire, kernels, steps.

    Older exports know neither directions of copies nor types of collectives; the replay is as good.
    """
    text = shared_data / "ascend" / "torch_npu_level1"
    for rank in (0, 1):
        db.of_folder(text / f"rank{rank}_ascend_pt", rank, tmp_path)
    ours, theirs = read(text), read(tmp_path)
    assert_same(ours, theirs)
    assert_same_details(ours, theirs)
    assert ours.details is not None and theirs.details is not None
    assert np.abs(ours.details.wait_ns - theirs.details.wait_ns).max() <= 2  # text rounds parts of a nanosecond
    assert ours.step_table == theirs.step_table
    assert ours.collectives.links == theirs.collectives.links
    for path in tmp_path.rglob("ascend_pytorch_profiler_*.db"):
        change(path, "DROP TABLE MEMCPY_INFO", "ALTER TABLE COMMUNICATION_OP DROP COLUMN opType")
    older = read(tmp_path)
    assert older.details is not None
    assert set(older.details.op_type) == set(ours.details.op_type)
    for trace in (theirs, older):
        graph = build(trace)
        assert replay_error_pct(graph, simulate(graph)) <= 1


def test_reading_leaves_no_files_beside_an_export(tmp_path: Path) -> None:
    """Nor when its folder, like its header, has odd characters, and it says that it has a log of its own."""
    path = export(tmp_path / "50% of #1?", make.level1())
    assert path.read_bytes()[18:20] == b"\2\2"
    assert len(read(path)) > 0
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_cluster_database_tells_what_the_files_of_a_cluster_tell(tmp_path: Path) -> None:
    """Collectives, steps of ranks and stages, groups by both of their names, and the sizes the job was started with."""
    steps = cluster_steps(range(8), [range(4), range(4, 8)])
    groups = [("collective", "(0,1,2,3)", make.GROUP, "10.0.0.1%eth0_6000_0_17", "dp"), ("p2p", "(0,4)", "", "", "")]
    base = [("distributed_args", '{"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2}')]
    db.cluster(tmp_path / "out" / "cluster_analysis.db", steps, of_ranks(range(4)), groups, base)
    trace = read(tmp_path / "out")
    assert (trace.ranks, trace.world_size, trace.layout) == (tuple(range(8)), 8, {"tp": 2, "pp": 2})
    assert [(group.name, group.description, group.ranks) for group in trace.groups] == [
        (make.GROUP, "dp", (0, 1, 2, 3))
    ]
    assert trace.dur_ns.tolist() == [396_000, 395_000, 394_000, 393_000]
    assert trace.collectives.recorded_transfer_ns.tolist() == [280_000] * 4
    assert [(row.rank, row.stage) for row in trace.step_table[7:]] == [(7, ()), (-1, (0, 1, 2, 3)), (-1, (4, 5, 6, 7))]
    with pytest.raises(RefusedError, match="1 cluster database"):
        build(trace)


def test_a_whole_job_of_exports_is_its_ranks_and_what_the_cluster_adds(tmp_path: Path) -> None:
    """Two ranks have exports, the database of the cluster adds members and sizes."""
    for rank in (0, 1):
        export(tmp_path / f"node_{rank}_ascend_pt", make.level1(counter=rank), rank)
    groups = [("collective", "(0,1,2,3,4,5,6,7)", make.GROUP, "", "dp")]
    path = tmp_path / "cluster_analysis_output" / "cluster_analysis.db"
    db.cluster(path, cluster_steps(range(8), indexes=True), {}, groups)
    trace = read(tmp_path)
    assert (trace.ranks, trace.world_size, trace.layout) == ((0, 1), 8, {"tp": 2, "pp": 2, "dp": 2})
    assert [(group.name, len(group.ranks)) for group in trace.groups] == [(make.GROUP, 8)]
    graph = build(trace)
    assert abs(replay_error_pct(graph, simulate(graph))) <= 3


def test_a_database_of_another_tool_is_no_trace(tmp_path: Path) -> None:
    """Alone it is an error, beside a trace it is left out."""
    with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection:
        connection.executescript("CREATE TABLE task (id INTEGER, name TEXT); CREATE TABLE users (name TEXT)")
    with pytest.raises(TraceError, match="sqlite database, but none that a profiler exported"):
        read(tmp_path)
    export(tmp_path, make.level1())
    assert "1 files are not traces and were left out: tasks.db" in read(tmp_path).health.warnings


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip", ".gz"])
def test_exports_are_read_from_archives(suffix: str, tmp_path: Path) -> None:
    """And from a compressed file."""
    path = export(tmp_path, make.level1())
    packed = tmp_path / f"run.db{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(packed, "w") as archive:
            archive.write(path, "run/a.db")
    elif suffix == ".tar.gz":
        with tarfile.open(packed, "w:gz") as tar:
            tar.add(path, "run/a.db")
    else:
        packed.write_bytes(gzip.compress(path.read_bytes()))
    assert_same(read(path), read(packed))


def test_tables_are_found_behind_the_first_page(tmp_path: Path) -> None:
    """An export with many tables keeps its schema elsewhere; nothing in the head of the file names one of them."""
    path = tmp_path / "renamed.bin"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = off")
        for number in range(400):
            connection.execute(f"CREATE TABLE A_TABLE_WITH_QUITE_A_LONG_NAME_{number} (id INTEGER, value TEXT)")
        connection.commit()
        for name, columns in db.SCHEMA.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.commit()
    assert b"STRING_IDS" not in path.read_bytes()[:65536]
    whole = db.exported(make.level1())
    with closing(sqlite3.connect(path)) as connection:
        for table, rows in whole.rows.items():
            for row in rows:
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
        strings = [(number, text) for text, number in whole.strings.items()]
        connection.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", strings)
        connection.commit()
    assert len(read(path)) == 23


def test_text_is_used_where_it_is_whole(tmp_path: Path) -> None:
    """The export beside it says the same, and is counted."""
    folder = make.write(tmp_path, 0, make.level1())
    export(folder, make.level1())
    trace = read(folder)
    assert trace.health.skipped["sqlite exports beside their timeline"] == 1
    assert trace.health.skipped["flow arrows"] == 6
    assert len(trace) == 23


@pytest.mark.parametrize("text", ["cut", "damaged", "level 0"])
def test_the_export_is_used_where_text_is_not_whole(text: str, tmp_path: Path) -> None:
    """A timeline that ends in the middle, is none, or lacks the calls that level 0 leaves out of the text only."""
    folder = make.write(tmp_path, 0, make.level0() if text == "level 0" else make.level1())
    view = folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    whole = view.read_bytes()
    if text != "level 0":
        view.write_bytes(whole[: len(whole) // 2] if text == "cut" else b'["Ascend Hardware"')
    export(folder, make.level1())
    trace = read(folder)
    assert len(trace) == 23
    assert trace.health.skipped["timelines whose sqlite export is used"] == 1
    assert any("the export ascend_pytorch_profiler_0.db is used instead" in told for told in trace.health.warnings)
    assert trace.details is not None
    assert [group.name for group in trace.groups] == [make.GROUP]


def test_statistics_beside_an_export_give_transfers_and_links(tmp_path: Path) -> None:
    """0.3 ms on the wire where no planes are recorded; steps in us, or in ms as the reference says."""
    folder = tmp_path / "a"
    export(folder, [*make.framework(), *make.cann(), *make.hardware(), *make.collective(planes=False)])
    steps = "Step,Computing,Communication(Not Overlapped),Free\n3,300.0,396.0,300.0\n"
    db.statistics(folder / "ASCEND_PROFILER_OUTPUT" / "analysis.db", make.communication(transit_ms=0.3), steps)
    trace = read(folder)
    assert trace.collectives.recorded_transfer_ns.tolist() == [300_000]
    (row,) = trace.step_table
    assert (row.step, dict(row.parts_ms)) == (
        "3",
        {"Computing": 0.3, "Communication(Not Overlapped)": 0.396, "Free": 0.3},
    )
    change(folder / "ASCEND_PROFILER_OUTPUT" / "analysis.db", "UPDATE StepTraceTime SET computing = 0.3, free = 0.3, "
           "communication_not_overlapped = 0.396")  # fmt: skip
    assert read(folder).step_table == trace.step_table


def test_exports_of_all_ranks_may_lie_in_one_folder(tmp_path: Path) -> None:
    """Each is a rank of its own; msprof's newer export of the same recording replaces the older."""
    for rank in (0, 1):
        db.exported(make.level1(), rank=rank, group=make.GROUP).write(tmp_path / f"ascend_pytorch_profiler_{rank}.db")
    trace = read(tmp_path)
    assert (trace.ranks, len(trace)) == ((0, 1), 46)
    for stamp in ("20240605101010", "20240605111111"):
        again = db.exported(make.level1(), rank=-1)
        again.add("SESSION_TIME_INFO", startTimeNs=int(stamp), endTimeNs=int(stamp))
        again.write(tmp_path / "PROF_000001_1_A" / f"msprof_{stamp}.db")
    alone = read(tmp_path / "PROF_000001_1_A")
    assert (len(alone), alone.files) == (23, ("msprof_20240605111111.db",))


def test_exports_that_were_renamed_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    """Of ranks 0 and 1; of rank 1 the one that was exported last."""
    for name, rank in (("first run.db", 0), ("n1_a.db", 1), ("n1_b.db", 1)):
        db.exported(make.level1(), rank=rank, group=make.GROUP).write(tmp_path / name)
    change(tmp_path / "n1_b.db", "INSERT INTO META_DATA VALUES ('exported', 'again')")
    trace = read(tmp_path)
    assert (trace.ranks, trace.files) == ((0, 1), ("first run.db", "n1_b.db"))
    assert trace.health.skipped["files that repeat others of their rank"] == 1


def test_mindspore_exports_hold_no_framework(tmp_path: Path) -> None:
    """CANN's calls and the device remain; the rank is in the name."""
    rows = [*make.cann(), *make.hardware(), *make.collective()]
    whole = db.exported(rows, rank=-1, group=make.GROUP)
    del whole.rows["PYTORCH_API"], whole.rows["CONNECTION_IDS"]
    schema = {name: text for name, text in db.SCHEMA.items() if name in whole.rows or name.startswith(("ENUM", "STR"))}
    whole.write(tmp_path / "node_7_ascend_ms" / "ASCEND_PROFILER_OUTPUT" / "ascend_mindspore_profiler_5.db", schema)
    trace = read(tmp_path)
    assert (trace.ranks, len(trace)) == ((5,), 16)
    assert trace.health.warnings == ()


def test_steps_may_be_in_a_table_of_their_own(tmp_path: Path) -> None:
    """They become markers on the thread that has most operators."""
    rows = [event for event in make.level1() if not event["name"].startswith("ProfilerStep")]
    whole = db.exported(rows)
    start = db.span(make.row(0, 0, "", (0, 1000)))[0]
    whole.add("STEP_TIME", id=3, startNs=start, endNs=start + 1_000_000)
    trace = read(whole.write(tmp_path / "a.db"))
    (marker,) = (event for event in range(len(trace)) if trace.name_of(event) == "ProfilerStep#3")
    assert (trace.dur_ns[marker], trace.lanes[trace.lane[marker]].tid) == (1_000_000, "100")


def test_a_task_that_has_parts_is_shown_by_its_parts(tmp_path: Path) -> None:
    """As timelines show FFTS+ tasks; the same number later in the stream is another task."""
    whole = db.exported(make.level1())
    (parent, later) = (dict(row) for row in whole.rows["TASK"][:2])
    for number, change_to in ((900, {"contextId": 0}), (901, {"contextId": 1})):
        whole.rows["TASK"].append({**parent, **change_to, "globalTaskId": number, "endNs": parent["endNs"] - 1000})
    whole.rows["TASK"][1] = later | {"taskId": parent["taskId"]}
    trace = read(whole.write(tmp_path / "a.db"))
    assert trace.health.skipped["tasks shown by their parts"] == 1
    assert len(trace) == 24


def test_ranges_of_the_user_are_annotations(tmp_path: Path) -> None:
    """And garbage collections are counted, as in a timeline."""
    whole = db.exported(make.level1())
    start, end = db.span(make.row(0, 0, "", (10, 60)))
    thread = make.HOST << 32 | 100
    whole.add("MSTX_EVENTS", startNs=start, endNs=end, eventType=1, message=whole.text("forward"), globalTid=thread)
    whole.add("GC_RECORD", startNs=start, endNs=end, globalTid=thread)
    trace = read(whole.write(tmp_path / "a.db"))
    (mark,) = (event for event in range(len(trace)) if trace.name_of(event) == "forward")
    assert (trace.kind[mark], trace.dur_ns[mark], trace.lanes[trace.lane[mark]].tid) == (
        EventKind.ANNOTATION,
        50_000,
        "100",
    )
    assert trace.health.skipped["rows of Python GC"] == 1


def test_devices_of_one_export_are_ranks_of_their_own(tmp_path: Path) -> None:
    """As those of one timeline: here mapped to ranks 6 and 7, where msprof maps none by their numbers."""
    events = [*variants.eager(), *variants.second_device()]
    text = read(variants.write(tmp_path, events))
    for first, ranks in ((6, (6, 7)), (-1, (0, 1))):
        database = read(db.exported(events, rank=first).write(tmp_path / f"{first}" / "msprof_20240605101010.db"))
        assert (database.ranks, text.ranks) == (ranks, (0, 1))
        assert calls(database) == calls(text)
        assert (database.rank - ranks[0]).tolist() == text.rank.tolist()
        assert pairs(database, "correlation") == pairs(text, "correlation")


def test_graph_mode_is_joined_by_models(tmp_path: Path) -> None:
    """Tasks of a model belong to the call that executed it, in both forms."""
    text = read(variants.write(tmp_path, variants.graph()))
    database = read(db.exported(variants.graph()).write(tmp_path / "db" / "msprof_20240605101010.db"))
    assert calls(database) == calls(text)
    assert pairs(database, "correlation") == pairs(text, "correlation")


def test_peaks_of_memory_are_in_bytes(tmp_path: Path) -> None:
    """The largest of each component; that of the process is what the rank reserves."""
    whole = db.exported(make.level1())
    for component, allocated, reserved in (("PTA", 100, 300), ("PTA", 200, 250), ("APP", 0, 400)):
        text = whole.text(component)
        whole.add("MEMORY_RECORD", component=text, totalAllocated=allocated << 20, totalReserved=reserved << 20)
    assert read(whole.write(tmp_path / "a.db")).memory == (MemoryPeak(0, 200 << 20, 400 << 20),)


def test_rows_without_a_device_are_of_the_only_one(tmp_path: Path) -> None:
    """A column that was not there yet, or a cell that is empty, makes no second rank."""
    path = change(export(tmp_path, make.level1()), "UPDATE TASK SET deviceId = NULL WHERE globalTaskId = 0")
    assert (read(path).ranks, len(read(path))) == ((0,), 23)
    change(path, "ALTER TABLE TASK DROP COLUMN deviceId", "ALTER TABLE COMMUNICATION_OP DROP COLUMN deviceId")
    assert (read(path).ranks, len(read(path))) == ((0,), 23)


def test_statistics_alone_are_looked_at(tmp_path: Path) -> None:
    """Collectives and steps of ``analysis.db``, as of the text files; what started them is not known."""
    steps = "Step,Computing,Communication(Not Overlapped),Free\n3,300.0,396.0,300.0\n"
    trace = read(db.statistics(tmp_path / "analysis.db", make.communication(), steps))
    assert (trace.dur_ns.tolist(), trace.collectives.recorded_transfer_ns.tolist()) == ([396_000], [280_000])
    assert [dict(row.parts_ms)["Computing"] for row in trace.step_table] == [0.3]
    with pytest.raises(RefusedError, match="1 sqlite statistics"):
        build(trace)


def test_an_export_gives_the_kernels_of_a_timeline_without_a_table(tmp_path: Path) -> None:
    """Blocks of two kernels; the events are the timeline's."""
    folder = make.write(tmp_path, 0, make.level1(), tables=False)
    kernels = [{"Start Time(us)": make.ts(100), "Type": "MatMulV3", "Block Num": "24"}]
    path = folder / "ASCEND_PROFILER_OUTPUT" / "ascend_pytorch_profiler_0.db"
    db.exported(make.level1(), kernels, group=make.GROUP).write(path)
    trace = read(folder)
    assert trace.details is not None
    assert "MatMulV3" in trace.details.op_type
    assert (trace.files, len(trace)) == (("trace_view.json",), 23)


def test_text_is_used_as_it_is_where_the_export_is_worse(tmp_path: Path) -> None:
    """A profiler that was killed leaves a timeline without its end, and an export without its strings."""
    folder = make.write(tmp_path, 0, make.level1())
    view = folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    view.write_bytes(view.read_bytes()[:-600])
    change(export(folder, make.level1()), "DROP TABLE STRING_IDS")
    trace = read(folder)
    assert len(trace) == 23
    assert any("export again; trace_view.json is used as it is" in told for told in trace.health.warnings)


def test_an_export_tells_the_rank_that_settings_beside_it_do_not(tmp_path: Path) -> None:
    """profiler_info.json of a job that was not yet distributed when profiling began."""
    path = db.exported(make.level1(), rank=3, group=make.GROUP).write(tmp_path / "x_ascend_pt" / "renamed.db")
    path.with_name("profiler_info.json").write_text('{"torch_npu_version": "2.1"}', "utf-8")
    assert read(tmp_path).ranks == (3,)


def test_msprof_tells_the_ranks_of_an_exports_devices_beside_it(tmp_path: Path) -> None:
    """The export maps none."""
    top = tmp_path / "PROF_000001_20240605101010123_ABCDEFGH"
    events = [*variants.eager(), *variants.second_device()]
    db.exported(events, rank=-1).write(top / "msprof_20240605101010.db")
    for device, rank in ((0, 12), (1, 3)):
        info = top / f"device_{device}" / f"info.json.{device}"
        info.parent.mkdir()
        info.write_text(f'{{"platform_version": "5", "DeviceInfo": [], "rank_id": {rank}}}', "utf-8")
    assert read(tmp_path).ranks == (3, 12)
