"""Waits that Ascend's timelines show: the task queue's two ends, event waits of streams, staged copies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.graph.build import build
from replay.graph.launch_join import join_launches
from replay.graph.selection import select
from replay.graph.step import find_steps
from replay.graph.task_queue import queue_handovers, task_queue
from replay.graph.types import Graph, OpKind, Rule
from replay.report.accuracy import replay_error_pct
from replay.simulate.engine import simulate
from replay.trace import Trace
from tests.parsers.ascend import folders as make

NAMES = {"mm": "aclnnMatmul_MatMulCommon_MatMulV3", "add": "aclnnAdd_Add_Add", "sum": "hcom_allReduce_"}


def trace_of(folder: Path, events: list[make.Event]) -> Trace:
    """A trace of one rank."""
    make.write(folder, 0, events)
    trace = parsers.read([folder])
    assert isinstance(trace, Trace)
    return trace


def op(graph: Graph, word: str, kind: OpKind) -> int:
    """The only op of that name and kind."""
    (found,) = [i for i in range(len(graph)) if graph.names[graph.name[i]] == NAMES[word] and graph.kind[i] == kind]
    return found


def sources(graph: Graph, target: int, rule: Rule) -> list[int]:
    """Ops with an edge of ``rule`` into ``target``."""
    edges = graph.edges
    rows = range(edges.offsets[target], edges.offsets[target + 1])
    return [int(edges.source[row]) for row in rows if edges.rule[row] == rule]


@pytest.mark.parametrize("level", [make.level0, make.level1])
def test_streams_wait_for_each_other_by_their_tasks(tmp_path: Path, level: object) -> None:
    """The all-reduce waits for the matmul, the add for the all-reduce, with and without host calls."""
    graph = build(trace_of(tmp_path, level()))  # type: ignore[operator]
    assert sources(graph, op(graph, "sum", OpKind.ARRIVAL), Rule.EVENT) == [op(graph, "mm", OpKind.COMPUTE)]
    assert sources(graph, op(graph, "add", OpKind.COMPUTE), Rule.EVENT) == [op(graph, "sum", OpKind.TRANSFER)]


def test_a_record_stands_for_what_its_stream_waited_for(tmp_path: Path) -> None:
    """Stream 4 only passes on that the matmul is over: the add on stream 5 waits for the matmul."""
    tasks = [
        (2, NAMES["mm"], (100, 300), "AI_CORE", 2),
        (2, "EVENT_RECORD", (300, 300.02), "EVENT_RECORD_SQE", 3),
        (4, "EVENT_WAIT", (150, 300.4), "EVENT_WAIT_SQE", 4),
        (4, "EVENT_RECORD", (300.4, 300.42), "EVENT_RECORD_SQE", 6),
        (5, "EVENT_WAIT", (200, 300.8), "EVENT_WAIT_SQE", 8),
        (5, NAMES["add"], (302, 402), "AI_VECTOR_CORE", 10),
    ]
    rows = [
        make.row(make.HARDWARE, stream, name, span, args={"Task Type": kind, "connection_id": number})
        for stream, name, span, kind, number in tasks
    ]
    named = make.named(make.HARDWARE, "Ascend Hardware", {n: f"Stream {n}" for n in (2, 4, 5)})
    graph = build(trace_of(tmp_path, [*make.framework(), *make.cann(), *named, *rows]))
    assert sources(graph, op(graph, "add", OpKind.COMPUTE), Rule.EVENT) == [op(graph, "mm", OpKind.COMPUTE)]


def test_a_collective_without_sub_tasks_lies_on_the_stream_that_records_its_end(tmp_path: Path) -> None:
    """Nothing but the record 2 us after it ties it to stream 9; records of stream 2 in its time are not its own."""
    events = [e for e in make.level0() if e.get("name") not in ("Notify Wait", "SDMA")]
    record = make.row(make.HARDWARE, 2, "EVENT_RECORD", (400, 400.02), args={"Task Type": "EVENT_RECORD_SQE"})
    graph = build(trace_of(tmp_path, [*events, record]))
    assert sources(graph, op(graph, "sum", OpKind.ARRIVAL), Rule.EVENT) == [op(graph, "mm", OpKind.COMPUTE)]
    assert sources(graph, op(graph, "add", OpKind.COMPUTE), Rule.EVENT) == [op(graph, "sum", OpKind.TRANSFER)]


def test_reading_a_value_waits_where_no_call_is_recorded(tmp_path: Path) -> None:
    """Level 0: the operator over [200, 905] waited for the add, which ends at 802 us; its time is not the host's."""
    read = make.row(make.HOST, 100, "aten::_local_scalar_dense", (200, 905), cat="cpu_op", args={})
    graph = build(trace_of(tmp_path, [*make.level0(), read]))
    host = np.isin(graph.kind, (OpKind.HOST, OpKind.CALL)) & (graph.measured_start_ns >= 200_000)
    (after,) = [i for i in np.flatnonzero(host).tolist() if sources(graph, i, Rule.HOST_SYNC)]
    assert sources(graph, after, Rule.HOST_SYNC) == [op(graph, "add", OpKind.COMPUTE)]
    assert int(graph.duration_ns[host].sum()) <= 95_000 + 103_000


def test_time_on_the_wire_is_the_transfer(tmp_path: Path) -> None:
    """280 us of the collective's 396 are its transfer; the members not seen were late by the rest."""
    graph = build(trace_of(tmp_path, make.level1()))
    transfer = op(graph, "sum", OpKind.TRANSFER)
    assert graph.duration_ns[transfer] == 280_000
    row = int(graph.comm[transfer])
    assert (graph.comms.transfer_low_ns[row], graph.comms.transfer_high_ns[row]) == (280_000, 280_000)
    assert (graph.comms.seen[row], graph.comms.size[row]) == (1, 4)


def test_the_step_replays(tmp_path: Path) -> None:
    """1000 us as recorded; nothing but lags of the queue's and streams' own is modelled."""
    graph = build(trace_of(tmp_path, make.level1()))
    assert graph.measured_step_ns == 1_000_000
    assert replay_error_pct(graph, simulate(graph)) < 3


def test_an_idle_taker_waits_for_the_put(tmp_path: Path) -> None:
    """Thread 101 takes its first entry at 60 us, put by 45 us, and its second at 120, put by 115."""
    trace = trace_of(tmp_path, make.level1())
    launches = join_launches(trace)
    (step,) = select(trace, launches, find_steps(trace, launches).steps[0])
    found = queue_handovers(trace, task_queue(trace, 0), step)
    assert [(h.from_ns, h.until_ns, h.released_ns) for h in found] == [(0, 60_000, 45_000), (80_000, 120_000, 115_000)]


def test_a_put_into_a_full_queue_waits_for_a_take(tmp_path: Path) -> None:
    """A queue of 100 entries: from the 101st on each put ends as the take 100 before it does."""
    events = [*make.framework()]
    takes = [(60 + 50 * n, 108 + 50 * n) for n in range(130)]
    for number in range(130):
        begin = 20 + 0.2 * number if number < 100 else takes[number - 100][1] - 45
        end = begin + 0.1 if number < 100 else takes[number - 100][1] + 1
        args = {"args": {"correlation_id": 1000 + number}}
        events.append(make.row(make.HOST, 102, "Enqueue", (begin, round(end, 1)), cat="enqueue", **args))
        events.append(make.row(make.HOST, 103, "Dequeue@op", takes[number], cat="dequeue", **args))
    events = [e for e in events if e.get("name") != "ProfilerStep#3"]
    events.append(make.row(make.HOST, 100, "ProfilerStep#3", (0, 9000), cat="cpu_op"))
    trace = trace_of(tmp_path, [*events, *make.hardware(), *make.collective()])
    launches = join_launches(trace)
    (step,) = select(trace, launches, find_steps(trace, launches).steps[0])
    waits = queue_handovers(trace, task_queue(trace, 0), step)
    full = [h for h in waits if trace.lanes[h.waiter].tid == "102"]
    assert [h.released_ns // 1000 for h in full] == [takes[n][1] for n in range(30)]


def test_a_staged_copy_keeps_its_delay(tmp_path: Path) -> None:
    """The stream was empty, the host waited for the copy: the 500 us before its row are the copy's own."""
    copy = make.row(make.HARDWARE, 2, "MEMCPY_ASYNC", (20, 40), args={"Task Type": "PCIE_DMA_SQE", "connection_id": 50})
    events = [e for e in make.level1() if e.get("name") != "ProfilerStep#3"]
    events.append(make.row(make.HOST, 100, "ProfilerStep#3", (-600, 1000), cat="cpu_op"))
    calls = [("aclrtMemcpyAsync", (-480, -470), 50), ("aclrtSynchronizeStreamWithTimeout", (-460, 45), 51)]
    for name, span, connection in calls:
        events.append(make.row(make.CANN, 104, f"AscendCL@{name}", span, args={"connection_id": connection}))
    graph = build(trace_of(tmp_path, [*events, copy]))
    (copied,) = np.flatnonzero(graph.kind == OpKind.MEMCPY).tolist()
    edges = graph.edges
    rows = range(edges.offsets[copied], edges.offsets[copied + 1])
    assert [int(edges.lag_ns[row]) for row in rows if edges.rule[row] == Rule.LAUNCH] == [500_000]


def test_members_not_seen_are_late_after_the_last_that_was(tmp_path: Path) -> None:
    """Ranks 0 and 1 of 4 arrive at 302 and 352 us, both end at 698: 280 us of transfer begin 66 us after the second."""
    for rank, begin in ((0, 302), (1, 352)):
        events = [e for e in make.level1() if not str(e.get("name")).startswith("hcom_")]
        args = {"connection_id": 5, "data_type": "FP32", "count": 1000}
        events.append(make.row(make.HCCL, 0, "hcom_allReduce__123_0_1", (begin, 698), args=args))
        planes = [e for e in events if e["pid"] == make.HCCL and e.get("tid") == 2 and e["ph"] == "X"]
        kept = [e for e in planes if e["name"] != "Notify_Wait"]
        make.write(tmp_path, rank, [e for e in events if e not in planes] + kept)
    trace = parsers.read([tmp_path])
    assert isinstance(trace, Trace)
    graph = build(trace)
    edges, target = graph.edges, graph.edges.target
    into = (graph.kind[target] == OpKind.TRANSFER) & (edges.rule == Rule.COLLECTIVE)
    assert edges.lag_ns[into].tolist() == [66_000] * 4
