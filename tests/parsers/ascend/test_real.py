"""Two of eight ranks of a torch_npu level-1 profile, against what its own tables say."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.core.errors import RefusedError
from replay.graph.build import build
from replay.report.accuracy import replay_error_pct, start_error_p95
from replay.report.ascend_step import step_times
from replay.simulate.engine import simulate
from replay.trace import Trace

RANKS = ("rank0_ascend_pt", "rank1_ascend_pt")
ELEMENTS = [4097000, 16781312, 37752832, 2469696]  # "count" of the four all-reduces, FP32


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    """The profile."""
    return shared_data / "ascend" / "torch_npu_level1"


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    """Both ranks."""
    found = parsers.read([folder])
    assert isinstance(found, Trace)
    return found


@pytest.mark.parametrize("ranks", [RANKS, RANKS[:1], RANKS[1:]])
def test_the_step_replays(folder: Path, ranks: tuple[str, ...]) -> None:
    """Each rank alone, and both together."""
    found = parsers.read([folder / rank for rank in ranks])
    assert isinstance(found, Trace)
    graph = build(found)
    timeline = simulate(graph)
    assert replay_error_pct(graph, timeline) <= 3
    error = start_error_p95(graph, timeline)
    assert error is not None and error.p95_pct <= 5


def test_step_times_are_those_of_the_step_table(folder: Path, trace: Trace) -> None:
    """Computing, Communication, Not Overlapped, Overlapped and Free by Ascend's definitions, within 1 %."""
    for own, rank in zip(step_times(trace), RANKS, strict=True):
        with (folder / rank / "ASCEND_PROFILER_OUTPUT/step_trace_time.csv").open(encoding="utf-8", newline="") as file:
            (row,) = csv.DictReader(file)
        theirs = [float(row[name]) for name in ("Computing", "Communication", "Overlapped", "Free")]
        ours = [own.computing_ns, own.communication_ns, own.overlapped_ns, own.free_ns]
        assert [ns / 1000 for ns in ours] == pytest.approx(theirs, rel=0.01)
        assert own.not_overlapped_ns / 1000 == pytest.approx(float(row["Communication(Not Overlapped)"]), rel=0.01)


def test_bytes_are_elements_times_their_size(trace: Trace) -> None:
    """Four bytes each, on both ranks, in the order of the step."""
    rows = trace.comm[trace.comm >= 0]
    assert trace.collectives.nbytes[rows].tolist() == [4 * n for n in ELEMENTS] * 2


def test_transfers_are_the_transit_of_communication_json(folder: Path, trace: Trace) -> None:
    """Within 10 % for every collective of both ranks."""
    theirs = []
    for rank in RANKS:
        text = (folder / rank / "ASCEND_PROFILER_OUTPUT/communication.json").read_text(encoding="utf-8")
        entries = json.loads(text)["step50"]["collective"]
        theirs += [v["Communication Time Info"]["Transit Time(ms)"] for k, v in entries.items() if k[:4] == "hcom"]
    graph = build(trace)
    ours = [
        int(graph.comms.transfer_low_ns[row]) / 1e6 for row in np.argsort(trace.rank[trace.comm >= 0], kind="stable")
    ]
    assert ours == pytest.approx(theirs, rel=0.1)


def test_kernel_tables_add_no_ops(folder: Path, trace: Trace, tmp_path: Path) -> None:
    """Rank 0 without its tables has the same events; all rows of the table find theirs."""
    view = (folder / RANKS[0] / "ASCEND_PROFILER_OUTPUT/trace_view.json").read_bytes()
    (tmp_path / "renamed.txt").write_bytes(view)
    bare = parsers.read([tmp_path])
    assert isinstance(bare, Trace) and trace.details is not None
    mine = trace.rank == 0
    assert bare.dur_ns.tolist() == trace.dur_ns[mine].tolist()
    assert bare.kind.tolist() == trace.kind[mine].tolist()
    assert len(trace.details) == 2 * 191


def test_folders_without_a_timeline_are_refused(shared_data: Path) -> None:
    """The older profile holds tables only: kernels, collectives and steps are read, nothing can be replayed."""
    older = parsers.read([shared_data / "ascend" / "older"])
    assert isinstance(older, Trace) and older.details is not None
    text = (shared_data / "ascend/older/test_rank_0/ASCEND_PROFILER_OUTPUT/communication.json").read_text("utf-8")
    written = json.loads(text)["step2"]
    names = [name for part in written.values() for name in part if name.startswith("hcom_")]
    assert int(((older.comm >= 0) & (older.rank == 0)).sum()) == len(names)
    assert [round(dict(row.parts_ms)["Computing"], 3) for row in older.step_table] == [75.175, 75.422]
    with pytest.raises(RefusedError, match="no timeline"):
        build(older)
