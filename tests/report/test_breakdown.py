"""Breakdowns worked out by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind, Rule
from replay.layout import Layout
from replay.program.p2p import ExchangeModel
from replay.program.passes import Cost, pass_graph
from replay.recording import PassKind
from replay.report.breakdown import State, breakdown, evidence_share
from replay.simulate.engine import simulate
from replay.trace import CollectiveKind, Group
from tests.synthetic import Comm, Op, graph_of, graphs

TP = Group("1", "TENSOR_MODEL_PARALLEL_GROUP")


def states_of(graph: Graph, rank: int = 0) -> dict[str, int]:
    """ns by state of one rank, zeros left out."""
    result = breakdown(graph, simulate(graph))
    row = result.time_ns[result.ranks.index(rank)]
    return {state.label: int(row[state]) for state in State if row[state]}


def all_reduce(early: int, late: int, transfer: int) -> Graph:
    """Two ranks compute for ``early`` and ``late`` ns, then reduce together."""
    ops = [
        Op("gemm", early),
        Op("gemm", late, rank=1),
        Op("ar", 0, [0], kind=OpKind.ARRIVAL, comm=0),
        Op("ar", 0, [1], rank=1, kind=OpKind.ARRIVAL, comm=1),
        Op("ar", transfer, [2, 3], kind=OpKind.TRANSFER, comm=0, rule=Rule.COLLECTIVE),
        Op("ar", transfer, [2, 3], rank=1, kind=OpKind.TRANSFER, comm=1, rule=Rule.COLLECTIVE),
    ]
    return graph_of(ops, comms=[Comm(CollectiveKind.ALL_REDUCE, 0)] * 2, groups=[TP])


def test_a_collective_is_wait_and_transfer() -> None:
    graph = all_reduce(early=30, late=100, transfer=20)
    assert states_of(graph, 0) == {"compute": 30, "wait": 70, "exposed_tp": 20}
    assert states_of(graph, 1) == {"compute": 100, "exposed_tp": 20}


def test_the_slowest_rank_is_the_one_the_others_wait_for() -> None:
    graph = all_reduce(early=30, late=100, transfer=20)
    result = breakdown(graph, simulate(graph))
    assert result.slowest_rank == 1
    assert result.mean_ms()["wait"] == 35e-6


def test_priority_of_overlapping_states() -> None:
    """Host 0-50, gemm 0-10, transfer 5-25, copy 20-40: every instant counts once."""
    ops = [
        Op("launch", 50, lane="thread 1", kind=OpKind.HOST),
        Op("gemm", 10),
        Op("ar", 20, lane="stream 8", kind=OpKind.TRANSFER, comm=0, ready=5),
        Op("copy", 20, lane="stream 9", kind=OpKind.MEMCPY, ready=20),
        Op("late", 10, lane="stream 9", ready=60),
    ]
    graph = graph_of(ops, comms=[Comm(CollectiveKind.ALL_REDUCE, 0)], groups=[TP])
    assert states_of(graph) == {"compute": 20, "exposed_tp": 15, "memory_copy": 15, "host": 10, "idle": 10}
    assert breakdown(graph, simulate(graph)).overlapped_ns.tolist() == [5]


def test_waiting_for_a_stage_is_a_bubble() -> None:
    """Rank 1 gets its input at 110 (100 + lag 10, the transfer) and rank 0 is done at 100 of 160."""
    ops = [Op("F0", 100), Op("F0", 50, [(0, 10)], rank=1, rule=Rule.P2P)]
    graph = graph_of(ops)
    assert states_of(graph, 0) == {"compute": 100, "bubble": 60}
    assert states_of(graph, 1) == {"compute": 50, "exposed_pp": 10, "bubble": 100}


def test_bubble_of_one_forward_one_backward() -> None:
    """PipeDream-flush: with equal stages every rank idles (p - 1)(f + b) of (m + p - 1)(f + b)."""
    layout = Layout(pp=4, world_size=4, microbatches=8, schedule="1f1b")
    cost = {PassKind.FORWARD: Cost(100, Grade.MEASURED), PassKind.BACKWARD: Cost(200, Grade.MEASURED)}
    graph = pass_graph(layout, ExchangeModel(), lambda item: cost[item.phase]).graph
    for rank in range(4):
        assert states_of(graph, rank) == {"compute": 8 * 300, "bubble": 3 * 300}


def test_waiting_in_a_receive_is_a_bubble() -> None:
    ops = [
        Op("recv", 0, kind=OpKind.ARRIVAL, comm=0),
        Op("recv", 5, [0], kind=OpKind.TRANSFER, comm=0, ready=40, rule=Rule.P2P),
    ]
    assert states_of(graph_of(ops, comms=[Comm(CollectiveKind.RECV)])) == {"bubble": 40, "exposed_pp": 5}


def test_a_notify_kernel_is_waiting() -> None:
    ops = [Op("notify_dispatch", 30, kind=OpKind.TRANSFER, comm=0)]
    assert states_of(graph_of(ops, comms=[Comm(CollectiveKind.NOTIFY)])) == {"wait": 30}


@given(graphs())
def test_states_sum_to_the_step(graph: Graph) -> None:
    result = breakdown(graph, simulate(graph))
    assert (result.time_ns.sum(axis=1) == result.step_ns).all()
    assert (result.time_ns >= 0).all()
    assert (result.overlapped_ns >= 0).all()


def test_evidence_share_is_of_device_time() -> None:
    graph = graph_of([Op("a", 30), Op("b", 10), Op("host", 60, lane="thread 1", kind=OpKind.HOST)])
    grade = np.array([Grade.MEASURED, Grade.SCALED, Grade.ASSUMED], np.int8)
    assert evidence_share(graph.with_durations(graph.duration_ns, grade)) == {"measured": 75.0, "scaled": 25.0}
