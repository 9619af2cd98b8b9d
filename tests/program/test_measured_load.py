"""Loads of the experts as the dispatches' split sizes tell them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.core.columns import Ragged
from replay.graph.types import Graph, OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.program.loads import Loads
from replay.program.measured_load import measured_load
from replay.program.retiming import RetimeContext
from replay.program.types import Labels
from replay.trace import CollectiveKind, Collectives, EventKind, Trace
from replay.whatif.ep import retime
from tests.program.events import HOST, Row, graph_of, launched, span, trace_of

LAYOUT = Layout(ep=4, dp=4, world_size=4, seq=64, mbs=1)
MODEL = ModelSpec(experts=8, topk=2)


def step(received: list[int]) -> tuple[Trace, Graph, Labels]:
    """Per layer: a dispatch of 100 bytes that brings ``received`` bytes, then a grouped GEMM of 600 ns."""
    rows = []
    for layer in range(len(received)):
        at = 1000 * layer
        rows += [span(f"layer={layer}", HOST, at, at + 999)]
        rows += [span("dispatch(F)", HOST, at + 1, at + 10), span("experts(F)", HOST, at + 11, at + 20)]
        rows += launched("SendRecv", HOST, at + 2, at + 3, 300, 2 * layer + 1)
        rows += launched("grouped_gemm", HOST, at + 12, at + 310, 600, 2 * layer + 2)
    trace = trace_of(rows)
    n = len(received)
    exchanges = np.flatnonzero(np.array([trace.name_of(i) for i in range(len(trace))]) == "SendRecv")
    comm = np.full(len(trace), -1, np.int32)
    comm[exchanges] = np.arange(n)
    i32, none = np.full(n, -1, np.int32), Ragged.from_rows([[]] * n)
    kinds = np.full(n, CollectiveKind.ALL_TO_ALL, np.int8)
    sizes = np.full(n, 100, np.int64), np.array(received, np.int64)
    table = Collectives(kinds, i32, i32.astype(np.int64), *sizes, i32, np.zeros(n, np.int8), ("Byte",) * n, none, none)
    trace = replace(trace, comm=comm, collectives=table)
    graph = graph_of(trace)
    kind = np.where(np.isin(graph.event, exchanges), OpKind.TRANSFER, OpKind.COMPUTE).astype(np.int8)
    graph = replace(graph, kind=kind)
    return trace, graph, label(graph, trace, LAYOUT, MODEL)


def test_load_is_received_over_sent_by_layer() -> None:
    trace, graph, labels = step([150, 50])
    load = measured_load(graph, trace, labels)
    assert load.known
    assert load.own.tolist() == [1.5, 1.5, 0.5, 0.5]


def test_without_split_sizes_the_load_is_even() -> None:
    trace, graph, labels = step([-1])
    load = measured_load(graph, trace, labels)
    assert not load.known
    assert load.own.tolist() == load.busiest.tolist() == [1.0, 1.0]


def test_rows_of_the_experts_tell_what_arrived() -> None:
    """HCCL counts what is sent: 100 bytes, where a GEMM has 30 rows of 5 bytes for 4 experts."""
    trace, graph, labels = step([-1])
    grouped = Row(EventKind.CPU_OP, "npu::npu_grouped_matmul", HOST, 11, 8, shape="[[30,5],[4,5,7]]")
    rows = [Row(EventKind(k), trace.name_of(i), int(trace.lane[i]), int(trace.start_ns[i]), int(trace.dur_ns[i]),
                int(trace.correlation[i])) for i, k in enumerate(trace.kind)]  # fmt: skip
    with_shapes = trace_of([*rows, grouped])
    moved = {trace.start_ns[event]: int(event) for event in range(len(trace))}
    back = np.array([moved.get(start, -1) for start in with_shapes.start_ns], np.int64)
    comm = np.where(back >= 0, trace.comm[back], -1).astype(np.int32)
    with_shapes = replace(with_shapes, comm=comm, collectives=trace.collectives)
    again = replace(graph_of(with_shapes), kind=graph.kind)
    load = measured_load(again, with_shapes, labels)
    assert load.known
    assert load.own.tolist() == [1.5, 1.5]


def test_balancing_takes_the_measured_load_away() -> None:
    """Layers with 1.5 and 0.5 of the mean: 600 ns of GEMM become 400 and 1200."""
    trace, graph, labels = step([150, 50])
    context = RetimeContext(trace, MODEL, loads=Loads.balanced(8))
    duration = retime(graph, labels, LAYOUT, LAYOUT, context).apply(graph).duration_ns
    assert duration[labels.role == labels.role[1]].tolist() == pytest.approx([400, 1200])


def test_another_ep_keeps_the_measured_load() -> None:
    trace, graph, labels = step([150, 50])
    result = retime(graph, labels, LAYOUT, LAYOUT.change(ep=2), RetimeContext(trace, MODEL))
    assert result.factor[labels.role == labels.role[1]].tolist() == [1.0, 1.0]
