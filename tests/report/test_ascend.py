"""Ascend's statistics and step parts, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import parsers
from replay.report.ascend import ascend_facts
from replay.report.ascend_step import step_times
from replay.trace import Trace
from tests.parsers.ascend import folders as make


def trace_of(folder: Path, extra: list[make.Event]) -> Trace:
    """The hand-made step with more rows."""
    make.write(folder, 0, [*make.level1(), *extra])
    trace = parsers.read([folder])
    assert isinstance(trace, Trace)
    return trace


def test_parts_of_a_step_by_ascends_definitions(tmp_path: Path) -> None:
    """Compute [100, 300], [320, 350], [702, 802], communication [302, 698]: 30 us overlap, 2 + 4 us are free."""
    kernel = make.row(make.HARDWARE, 2, "Cast_1", (320, 350), args={"Task Type": "AI_VECTOR_CORE", "connection_id": 2})
    (own,) = step_times(trace_of(tmp_path, [kernel]))
    assert (own.computing_ns, own.communication_ns) == (330_000, 396_000)
    assert (own.not_overlapped_ns, own.overlapped_ns, own.free_ns) == (366_000, 30_000, 6_000)


def test_operators_by_type_and_core(tmp_path: Path) -> None:
    """A matmul of 200 us on the cube cores and an add of 100 us on the vector cores: two thirds and one."""
    facts = ascend_facts(trace_of(tmp_path, []))
    assert facts is not None
    found = [(row.op_type, row.core, row.durations.total_ms) for row in facts.operators]
    assert found == [("MatMulV3", "AI_CORE", 0.2), ("Add", "AI_VECTOR_CORE", 0.1)]
    assert [row.durations.share_pct for row in facts.operators] == pytest.approx([200 / 3, 100 / 3])


def test_collectives_tell_wait_from_transfer(tmp_path: Path) -> None:
    """396 us, of which 280 on the wire; 1000 floats."""
    facts = ascend_facts(trace_of(tmp_path, []))
    assert facts is not None
    (row,) = facts.communication
    assert (row.operator, row.group, row.nbytes) == ("hcom_allReduce_", make.GROUP, 4000)
    assert row.transfer_ms == 0.28
    assert row.algorithm == "MESH-RING"
    assert row.wait_ms == pytest.approx(0.116)


def test_a_recording_without_steps_is_held_against_the_row_without_one(tmp_path: Path) -> None:
    """The table leaves the step empty where the job called no ``prof.step()``."""
    events = [event for event in make.level1() if event.get("name") != "ProfilerStep#3"]
    top = make.write(tmp_path, 0, events)
    table = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free\r\n,300,396,0,396,6\r\n"
    (top / "ASCEND_PROFILER_OUTPUT/step_trace_time.csv").write_text(table, encoding="utf-8", newline="")
    trace = parsers.read([tmp_path])
    assert isinstance(trace, Trace)
    facts = ascend_facts(trace)
    assert facts is not None
    (row,) = facts.steps
    assert dict(row.counted_ms) == pytest.approx(dict(row.recorded_ms))
