"""Sqlite exports of Ascend's profilers: the same trace as the text of the same run, and what is done about damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.core.errors import RefusedError, TraceError
from replay.graph.build import build
from replay.report.accuracy import replay_error_pct
from replay.simulate.engine import simulate
from replay.trace import Trace
from tests.parsers.ascend import databases as db
from tests.parsers.ascend import folders as make
from tests.parsers.ascend.layouts import cluster_steps, of_ranks

COLUMNS = ("start_ns", "dur_ns", "kind", "rank", "sequence", "stream", "nbytes")
OF_COMMS = ("kind", "group", "in_nbytes", "out_nbytes", "peer", "sequence", "recorded_transfer_ns")
OF_DETAILS = (
    "event", "op_type", "input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes",
    "output_formats",
)  # fmt: skip


def read(*paths: Path) -> Trace:
    """One trace of all."""
    found = parsers.read(paths)
    assert isinstance(found, Trace)
    return found


def export(folder: Path, events: Sequence[db.Event], rank: int = 0) -> Path:
    """An export of these rows, named as torch_npu names it."""
    path = folder / "ASCEND_PROFILER_OUTPUT" / f"ascend_pytorch_profiler_{rank}.db"
    return db.exported(events, rank=rank, group=make.GROUP).write(path)


def change(path: Path, *statements: str) -> Path:
    """An export with its rows changed."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = delete")
        connection.executescript(";".join(statements))
    return path


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


def texts(codes: Sequence[int], table: Sequence[str]) -> list[str]:
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
    """Both ranks of a level-1 profile: events, collectives with their times on the wire, kernels, steps."""
    text = shared_data / "ascend" / "torch_npu_level1"
    for rank in (0, 1):
        db.of_folder(text / f"rank{rank}_ascend_pt", rank, tmp_path)
    ours, theirs = read(text), read(tmp_path)
    assert_same(ours, theirs)
    assert_same_details(ours, theirs)
    assert ours.step_table == theirs.step_table
    assert ours.collectives.links == theirs.collectives.links
    graph = build(theirs)
    assert replay_error_pct(graph, simulate(graph)) <= 3


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
