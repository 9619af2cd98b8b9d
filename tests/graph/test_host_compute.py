"""Ranks without a device: operators are compute, Gloo's threads are streams, silence is waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.graph.types import Graph, OpKind, Rule
from replay.simulate.engine import simulate
from tests.graph.steps import edges_into, find, graph_of, op, step, trace_of
from tests.parsers.chrome import span

WORKER = 50  # number of the first worker thread


def reduce(at: float, begin: float, end: float, worker: int = WORKER) -> list[dict[str, Any]]:
    """A ``c10d::allreduce_`` of 20 µs and what a worker thread makes of it."""
    dims = {"Input Dims": [[1000]], "Input type": ["float"]}
    return [
        op("c10d::allreduce_", at, 20),
        span("gloo:all_reduce", begin, end - begin, cat="user_annotation", tid=worker, args=dims),
    ]


def exchange(name: str, peer: int, at: float, begin: float, end: float) -> list[dict[str, Any]]:
    """A ``c10d::send`` or ``c10d::recv_`` of 20 µs and the row that ends when its wait does."""
    args = {"Concrete Inputs": ["", "", str(peer), "0"]}
    dims = {"Input Dims": [[10, 100]], "Input type": ["float"]}
    operator = "c10d::send" if name == "send" else "c10d::recv_"
    return [
        span(operator, at, 20, args=args),
        span(f"gloo:{name}", begin, end - begin, cat="user_annotation", args=dims),
    ]


def simulated_us(graph: Graph, factor: dict[OpKind, float]) -> float:
    """Step with the durations of some kinds scaled."""
    scale = np.ones(len(graph))
    for kind, by in factor.items():
        scale[graph.kind == kind] = by
    return simulate(graph.with_durations(np.rint(graph.duration_ns * scale).astype(np.int64))).step_ns / 1000


def test_operators_are_compute_and_gaps_are_host_work(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, [step(100), op("aten::mm", 10, 60), op("aten::add", 80, 20)])
    compute = graph.kind == OpKind.COMPUTE
    assert graph.duration_ns[compute].tolist() == [60_000, 20_000]
    assert graph.duration_ns[graph.kind == OpKind.HOST].sum() == 20_000


def test_operators_inside_others_are_not_counted_twice(tmp_path: Path) -> None:
    events = [step(100), op("aten::linear", 10, 80), op("aten::t", 11, 2), op("aten::addmm", 20, 60)]
    graph = graph_of(tmp_path, events)
    assert graph.duration_ns[graph.kind == OpKind.COMPUTE].tolist() == [80_000]


def test_wrapping_operators_are_looked_through(tmp_path: Path) -> None:
    """An autograd node is not work: the two products of its backward count one by one, 10 µs around them are host's."""
    node = "autograd::engine::evaluate_function: MmBackward0"
    graph = graph_of(tmp_path, [step(100), op(node, 0, 100), op("aten::mm", 5, 40), op("aten::mm", 50, 45)])
    assert graph.duration_ns[graph.kind == OpKind.COMPUTE].tolist() == [40_000, 45_000]
    assert graph.duration_ns[graph.kind == OpKind.HOST].sum() == 15_000


def test_the_thread_waits_for_the_collective_it_handed_over(tmp_path: Path) -> None:
    """Rank 0 comes at 110, rank 1 at 310; both go on at 400: the transfer takes 90 µs, the rest is waiting."""
    late = [step(500), op("aten::mm", 0, 300), *reduce(300, 310, 400), op("aten::add", 400, 100)]
    early = [step(500), op("aten::mm", 0, 100), *reduce(100, 110, 400), op("aten::add", 400, 100)]
    graph = graph_of(tmp_path, early, late)
    assert simulated_us(graph, {}) == pytest.approx(500)
    assert simulated_us(graph, {OpKind.TRANSFER: 2}) == pytest.approx(590)
    assert simulated_us(graph, {OpKind.COMPUTE: 0.5}) == pytest.approx(500 - 150 - 50)


def test_a_collective_beside_compute_is_waited_for_with_the_next_one(tmp_path: Path) -> None:
    """The first bucket ends during the backward; what follows the second one's wait has waited for both."""
    events = [
        step(500), *reduce(0, 10, 150), op("aten::mm", 20, 280), *reduce(300, 310, 400), op("aten::add", 400, 100),
    ]  # fmt: skip
    graph = graph_of(tmp_path, events)
    transfers = np.flatnonzero(graph.kind == OpKind.TRANSFER).tolist()
    woken = int(graph.edges.target[graph.edges.rule == Rule.HOST_SYNC][0])
    assert sorted(edges_into(graph, woken, Rule.HOST_SYNC)) == transfers


def handed_over(call_us: float, begin: float, end: float) -> list[dict[str, Any]]:
    """A reduce-scatter of ``call_us`` from 100 on, whose transfer runs over [begin, end]; work from 400 on."""
    dims = {"Input Dims": [[1000]], "Input type": ["float"]}
    call = op("c10d::_reduce_scatter_base_", 100, call_us)
    worker = span("gloo:all_reduce", begin, end - begin, cat="user_annotation", tid=WORKER, args=dims)
    return [step(500), op("aten::mm", 0, 100), call, worker, op("aten::add", 400, 100)]


def test_a_call_that_copies_first_hands_over_at_its_end(tmp_path: Path) -> None:
    """The call copies for 190 us, the transfer takes from 300 to 390: with a call twice as long it ends at 580."""
    graph = graph_of(tmp_path, handed_over(190, 300, 390))
    assert simulated_us(graph, {}) == pytest.approx(500)
    assert simulated_us(graph, {OpKind.CALL: 2}) == pytest.approx(500 + 190)


def test_a_call_goes_on_beside_the_transfer_it_handed_over(tmp_path: Path) -> None:
    """It handed over at 120 and lost its core to the worker until 280: no wait, and no part of the hand-over."""
    graph = graph_of(tmp_path, handed_over(180, 120, 390))
    assert simulated_us(graph, {}) == pytest.approx(500)
    assert graph.duration_ns[graph.kind == OpKind.CALL].tolist() == [20_000]
    assert simulated_us(graph, {OpKind.TRANSFER: 0.1}) == pytest.approx(280 + 10 + 100)


def test_send_and_receive_meet(tmp_path: Path) -> None:
    """Rank 1 asks at 0, rank 0 sends at 200 and is done at 230: the receiver waited, it did not transfer for 230 µs."""
    sender = [step(300), op("aten::mm", 0, 200), *exchange("send", 1, 200, 218, 225), op("aten::add", 260, 40)]
    receiver = [step(300), *exchange("recv", 0, 0, 18, 230), op("aten::add", 230, 70)]
    graph = graph_of(tmp_path, sender, receiver)
    received = find(graph, "gloo:recv", OpKind.TRANSFER, rank=1)
    assert graph.duration_ns[received] == 30_000
    assert simulated_us(graph, {OpKind.COMPUTE: 2}) > 200 + 260


def test_workers_of_one_group_are_streams_of_it(tmp_path: Path) -> None:
    """Two transfers at a time take two streams, later ones the first that is free; workers' numbers do not matter."""
    events = [step(900), *reduce(0, 50, 300), *reduce(30, 80, 400, WORKER + 1), *reduce(500, 550, 800, WORKER + 1)]
    trace = trace_of(tmp_path, events, [step(900)])
    streams = [trace.lanes[lane].label for lane in trace.lane[trace.comm >= 0]]
    assert streams[0] == streams[2] != streams[1]


def test_a_receive_found_done_took_as_long_as_those_that_were_waited_for(tmp_path: Path) -> None:
    """The second message is posted at 300, but its receiver computes until 700: it took 30 µs, as the first did."""
    sender = [
        step(900), op("aten::mm", 0, 100), *exchange("send", 1, 100, 118, 130),
        op("aten::mm", 200, 100), *exchange("send", 1, 300, 318, 330), op("aten::add", 800, 100),
    ]  # fmt: skip
    receiver = [
        step(900), *exchange("recv", 0, 0, 18, 130), *exchange("recv", 0, 200, 218, 705),
        op("aten::mm", 230, 470), op("aten::add", 710, 190),
    ]  # fmt: skip
    graph = graph_of(tmp_path, sender, receiver)
    received = (graph.kind == OpKind.TRANSFER) & (graph.rank == 1)
    assert graph.duration_ns[received].tolist() == [30_000, 30_000]
    assert simulated_us(graph, {}) == pytest.approx(900)
