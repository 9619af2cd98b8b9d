"""Accuracy figures by hand arithmetic."""

from __future__ import annotations

from replay.graph.types import OpKind
from replay.report.accuracy import measured_timeline, replay_error_pct, residual_pct, start_error_p95
from replay.simulate.engine import simulate
from tests.synthetic import Op, graph_of


def test_replay_error_is_of_the_simulation_without_residuals() -> None:
    graph = graph_of([Op("a", 95, residual=5, start=5)], step=100)
    assert replay_error_pct(graph, simulate(graph)) == 5.0
    assert replay_error_pct(graph, simulate(graph, residuals=True)) == 0.0


def test_residual_share_counts_only_the_critical_path() -> None:
    graph = graph_of([Op("a", 80, residual=20), Op("b", 1, residual=9, lane="stream 8")])
    assert residual_pct(graph, simulate(graph, residuals=True)) == 20.0


def test_start_error_is_over_device_ops() -> None:
    """21 kernels, one of them 10 ns off: the 95th percentile is the second largest error, 0."""
    kernels = [Op(f"k{i}", 10, start=10 * i, ready=10 * i) for i in range(20)]
    ops = [*kernels, Op("late", 10, start=200, ready=190), Op("host", 1, lane="thread 1", kind=OpKind.HOST, start=50)]
    error = start_error_p95(graph_of(ops, step=210), simulate(graph_of(ops)))
    assert error is not None
    assert (error.p95_pct, error.ops, error.basis) == (0.0, 21, "device ops")


def test_a_collective_counts_once_by_its_arrival() -> None:
    ops = [
        Op("ar", 0, kind=OpKind.ARRIVAL, comm=0, start=0, ready=4),
        Op("ar", 10, [0], kind=OpKind.TRANSFER, comm=0, start=90),
    ]
    error = start_error_p95(graph_of(ops), simulate(graph_of(ops)))
    assert error is not None
    assert (error.p95_pct, error.ops) == (4.0, 1)


def test_host_only_traces_say_so() -> None:
    graph = graph_of([Op("host", 10, lane="thread 1", kind=OpKind.HOST, start=0)])
    error = start_error_p95(graph, simulate(graph))
    assert error is not None
    assert error.basis == "host ops"
    assert start_error_p95(graph_of([Op("new", 5)]), simulate(graph_of([Op("new", 5)]))) is None


def test_measured_timeline_keeps_measured_starts() -> None:
    graph = graph_of([Op("a", 10, start=7), Op("new", 5, [0])])
    timeline = measured_timeline(graph, simulate(graph, residuals=True))
    assert timeline.start_ns.tolist() == [7, 10]
    assert timeline.end_ns.tolist() == [17, 15]
