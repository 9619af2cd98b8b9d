"""Collectives, P2P and clocks over ranks: times by hand in µs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.graph.types import DEVICE_OPS, OpKind, Rule
from replay.simulate.engine import simulate
from tests.graph.steps import COMM, call, edges_into, find, graph_of, launch, step, step_us

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def all_reduce(start: float, dur: float, correlation: int, nelems: int = 1000) -> list[dict[str, Any]]:
    """An all-reduce of float32 over the world, launched 20 µs before it starts."""
    args = {
        "Collective name": "allreduce",
        "In msg nelems": nelems,
        "Out msg nelems": nelems,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": "0",
    }
    return launch(NCCL, start - 20, start, dur, correlation, stream=COMM, **args)


def rank(arrival: float, end: float, shift: float = 0, correlation: int = 1) -> list[dict[str, Any]]:
    """One rank that computes until ``arrival`` and then all-reduces until ``end``; its clock is ``shift`` ahead."""
    events = [step(500), *launch("k", 0, 7, arrival - 7, 8), call("cudaStreamWaitEvent", arrival - 30, 1, 7)]
    events += all_reduce(arrival, end - arrival, correlation)
    return [{**event, "ts": event["ts"] + shift} for event in events]


def test_a_collective_is_wait_plus_transfer(tmp_path: Path) -> None:
    """Arrivals at 100 and 150, both end at 180: 30 µs of transfer on both ranks, 50 µs of wait on the first."""
    graph = graph_of(tmp_path, rank(100, 180), rank(150, 180))
    transfers = [find(graph, NCCL, OpKind.TRANSFER, r) for r in (0, 1)]
    arrivals = [find(graph, NCCL, OpKind.ARRIVAL, r) for r in (0, 1)]
    assert [int(graph.duration_ns[op]) for op in transfers] == [30_000, 30_000]
    assert set(edges_into(graph, transfers[0], Rule.COLLECTIVE)) == set(arrivals)
    assert int(graph.measured_start_ns[arrivals[0]]) == 100_000


def test_the_wait_follows_the_late_rank(tmp_path: Path) -> None:
    """Device work doubled: the late rank arrives at 7 + 2·143 = 293 and the transfer takes 60: everyone ends at 353."""
    graph = graph_of(tmp_path, rank(100, 180), rank(150, 180))
    doubled = simulate(graph.with_durations(graph.duration_ns * (1 + np.isin(graph.kind, DEVICE_OPS))))
    for r in (0, 1):
        assert int(doubled.end_ns[find(graph, NCCL, OpKind.TRANSFER, r)]) == 353_000


def test_a_removed_collective_saves_no_more_than_its_exposed_time(tmp_path: Path) -> None:
    """Without the transfer the step still lasts until the late rank's arrival."""
    graph = graph_of(tmp_path, rank(100, 580), rank(150, 580))
    free = graph.duration_ns.copy()
    free[graph.kind == OpKind.TRANSFER] = 0
    assert simulate(graph).step_ns == 580_000
    assert simulate(graph.with_durations(free)).step_ns == 500_000  # the host's own step


@pytest.mark.parametrize("ahead_us", [1000, 3_600_000_000])
def test_clocks_of_ranks_are_aligned_by_the_ends_of_collectives(tmp_path: Path, ahead_us: int) -> None:
    """Rank 1's clock is 1000 µs ahead, or an hour: three all-reduces that end together say so."""

    def steps(shift: float, *arrivals: float) -> list[dict[str, Any]]:
        events = [step(900)]
        for i, (arrival, end) in enumerate(zip(arrivals, (200, 400, 600), strict=True)):
            events += all_reduce(arrival, end - arrival, i + 1)
        return [{**event, "ts": event["ts"] + shift} for event in events]

    graph = graph_of(tmp_path, steps(0, 100, 310, 580), steps(ahead_us, 150, 300, 590))
    assert graph.health.clock_offset_ns == {0: (0, 0), 1: (-1000 * ahead_us, 0)}
    assert graph.measured_step_ns == 900_000


def test_clocks_that_agree_within_their_spread_are_left_alone(tmp_path: Path) -> None:
    """Ends that scatter by ±3 µs around each other are no reason to move a clock."""

    def steps(*ends: float) -> list[dict[str, Any]]:
        return [step(900), *(e for i, end in enumerate(ends) for e in all_reduce(end - 50, 50, i + 1))]

    graph = graph_of(tmp_path, steps(200, 400, 600, 800), steps(203, 397, 603, 797))
    assert graph.health.clock_offset_ns[1][0] == 0


def test_one_rank_alone_gets_its_transfer_from_the_lower_envelope(tmp_path: Path) -> None:
    """Three all-reduces of equal bytes took 80, 30 and 55 µs: 30 is transfer, the rest is the peers' lateness."""
    events = [step(900)]
    for i, dur in enumerate((80, 30, 55)):
        events += all_reduce(100 + 200 * i, dur, i + 1)
    graph = graph_of(tmp_path, events, world=2)
    transfer = graph.kind == OpKind.TRANSFER
    assert list(graph.duration_ns[transfer]) == [30_000] * 3
    assert sorted(graph.edges.lag_ns[graph.edges.rule == Rule.COLLECTIVE]) == [0, 25_000, 50_000]
    assert list(graph.comms.transfer_high_ns) == [80_000, 30_000, 55_000]
    assert step_us(graph) == pytest.approx(900)


def p2p(kind: str, peer: int, start: float, dur: float) -> list[dict[str, Any]]:
    """A send to, or a receive from, a global rank."""
    args = {
        "Collective name": kind,
        "In msg nelems": 100,
        "Out msg nelems": 100,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": "pp",
        "Dst Rank" if kind == "send" else "Src Rank": peer,
    }
    return launch("ncclDevKernel_SendRecv(x)", start - 20, start, dur, 1, stream=COMM, **args)


def test_a_receive_waits_for_its_send(tmp_path: Path) -> None:
    """The receiver is ready at 50, the sender at 200, both end at 240: 40 µs of transfer."""
    graph = graph_of(tmp_path, [step(300), *p2p("send", 1, 200, 40)], [step(300), *p2p("recv", 0, 50, 190)])
    receive = find(graph, "ncclDevKernel_SendRecv(x)", OpKind.TRANSFER, 1)
    send_arrival = find(graph, "ncclDevKernel_SendRecv(x)", OpKind.ARRIVAL, 0)
    assert int(graph.duration_ns[receive]) == 40_000
    assert send_arrival in edges_into(graph, receive, Rule.COLLECTIVE)


def test_an_eager_send_does_not_wait(tmp_path: Path) -> None:
    """The send was over (110) before its receiver was ready (200): it has no edge from it."""
    graph = graph_of(tmp_path, [step(400), *p2p("send", 1, 100, 10)], [step(400), *p2p("recv", 0, 200, 30)])
    name = "ncclDevKernel_SendRecv(x)"
    send, receive = find(graph, name, OpKind.TRANSFER, 0), find(graph, name, OpKind.TRANSFER, 1)
    assert edges_into(graph, send, Rule.COLLECTIVE) == [find(graph, name, OpKind.ARRIVAL, 0)]
    assert find(graph, name, OpKind.ARRIVAL, 0) in edges_into(graph, receive, Rule.COLLECTIVE)
    assert int(graph.duration_ns[send]) == 10_000


def test_gloo_ranks_without_a_device_are_replayed_on_their_threads(tmp_path: Path) -> None:
    """Rank 0 computes 100 µs, rank 1 300 µs, then both all-reduce 50 µs: double compute moves the end to 650."""

    def cpu_rank(compute: float) -> list[dict[str, Any]]:
        gloo = {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 1}
        return [
            {**step(350)},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": compute},
            {**gloo, "ts": compute, "dur": 350 - compute},
        ]

    graph = graph_of(tmp_path, cpu_rank(100), cpu_rank(300))
    assert simulate(graph).step_ns == 350_000
    doubled = graph.duration_ns * (1 + (graph.kind == OpKind.COMPUTE))
    assert simulate(graph.with_durations(doubled)).step_ns == 650_000


def test_many_members_meet_in_one_op(tmp_path: Path) -> None:
    """Twelve ranks: an edge to and from the meeting instead of 132 between pairs, and the same times as pairwise."""
    graph = graph_of(tmp_path, *(rank(100 + 5 * r, 200) for r in range(12)))
    between = graph.edges.rule == Rule.COLLECTIVE
    assert between.sum() == 12 + 12 + 12
    assert simulate(graph).step_ns == graph.measured_step_ns
    transfers = graph.kind == OpKind.TRANSFER
    assert set(graph.duration_ns[transfers]) == {200_000 - 155_000}


def test_silence_inside_a_collective_is_not_a_hand_over(tmp_path: Path) -> None:
    """Two Gloo threads: the second's collective outlasts the first's by 60 µs without waiting for it to end."""
    gloo = {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1}
    events = [step(300), {**gloo, "tid": 11, "ts": 20, "dur": 170}, {**gloo, "tid": 12, "ts": 30, "dur": 220}]
    graph = graph_of(tmp_path, events, world=2)
    assert simulate(graph).step_ns == 300_000


def test_entering_a_collective_costs_what_its_last_member_takes(tmp_path: Path) -> None:
    """Members are free at 100; the last arrives 10, 30 and 40 µs later: a collective is entered in 30 µs."""

    def steps(*delays: float) -> list[dict[str, Any]]:
        events = [step(1000)]
        for i, delay in enumerate(delays):
            begin = 300 * i
            events += launch("k", begin, begin + 7, 93, 3 * i + 1)
            events += [call("cudaStreamWaitEvent", begin + 30, 1, 3 * i + 2)]
            events += all_reduce(begin + 100 + delay, 180 - delay, 3 * i + 3)
        for event in events:  # launches come long before the work
            if event.get("args", {}).get("correlation", 1) % 3 == 0 and event["cat"] == "cuda_runtime":
                event["ts"] = 300 * (event["args"]["correlation"] // 3 - 1) + 40
        return events

    graph = graph_of(tmp_path, steps(10, 5, 5), steps(5, 30, 40))
    into_arrivals = (graph.edges.rule == Rule.EVENT) & (graph.kind[graph.edges.target] == OpKind.ARRIVAL)
    assert set(graph.edges.lag_ns[into_arrivals]) == {30_000}
