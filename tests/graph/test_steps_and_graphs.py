"""Steps (R0), device graphs, spins, contradictions and cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.core.errors import GraphError, RefusedError, TraceError
from replay.graph.build import BuildOptions, build
from replay.graph.contradictions import break_cycles, drop_contradictions
from replay.graph.edge_list import EdgeList
from replay.graph.lags import Measured, learn_lag, typical_delay
from replay.graph.periodicity import find_period
from replay.graph.types import OpKind, Rule
from tests.graph.steps import COMM, call, edges_into, find, graph_of, launch, op, step, step_us, trace_of, work
from tests.parsers.chrome import span


def steps(*lengths: float) -> list[dict[str, Any]]:
    """Consecutive steps of one kernel each, 1000 µs apart."""
    events: list[dict[str, Any]] = []
    for i, length in enumerate(lengths):
        events += [step(1000 * i + length, i + 10, 1000 * i), *launch(f"k{i}", 1000 * i, 1000 * i + 7, 50, i + 1)]
    return events


def test_the_median_complete_step_is_the_default(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, steps(300, 500, 400))
    assert graph.health.step_label.startswith("ProfilerStep#12")
    assert graph.measured_step_ns == 400_000
    assert graph.health.period_ns == 1_000_000


def test_a_step_can_be_chosen_by_its_number(tmp_path: Path) -> None:
    assert graph_of(tmp_path, steps(300, 500, 400), number=11).measured_step_ns == 500_000
    with pytest.raises(TraceError, match="no step 99; the input has ProfilerStep#10"):
        graph_of(tmp_path, steps(300, 500, 400), number=99)


def test_a_step_whose_kernels_the_profiler_dropped_is_passed_over(tmp_path: Path) -> None:
    """Of three steps the middle one, which would be the median, lost its kernel."""
    events = [event for event in steps(300, 400, 500) if event["name"] != "k1"]
    assert graph_of(tmp_path, events).health.step_label.startswith("ProfilerStep#10")


def test_a_step_lasts_until_its_last_device_op(tmp_path: Path) -> None:
    assert graph_of(tmp_path, [step(100), *launch("k", 50, 60, 500, 1)]).measured_step_ns == 560_000


def test_a_named_range_marks_steps(tmp_path: Path) -> None:
    mark = span("train_iter#7", 0, 200, cat="user_annotation")
    trace = trace_of(tmp_path, [mark, *launch("k", 10, 20, 50, 1)])
    assert build(trace, BuildOptions(marker="train_iter")).measured_step_ns == 200_000
    with pytest.raises(TraceError, match=r"no range named 'nope'; ranges that repeat: train_iter#7$"):
        build(trace, BuildOptions(marker="nope"))


def test_without_a_marker_optimizer_ranges_delimit_steps(tmp_path: Path) -> None:
    events = [span("Optimizer.step#Adam.step", 400 * i, 50, cat="user_annotation") for i in range(3)]
    for i in range(12):
        events += launch("k", 100 * i + 60, 100 * i + 67, 20, i + 1)
    graph = graph_of(tmp_path, events)
    assert "optimizer" in graph.health.step_label
    assert graph.measured_step_ns == 400_000


def test_without_any_marker_the_busiest_window_is_the_step(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, [op("aten::mm", 0, 30), *launch("k", 10, 20, 80, 1)])
    assert "busiest" in graph.health.step_label
    assert any("--step-marker" in warning for warning in graph.health.warnings)
    assert graph.measured_step_ns == 100_000


def test_without_ranges_the_repetition_of_device_work_delimits_steps(tmp_path: Path) -> None:
    """Four rounds of ten kernels, 100 µs apart within a round and 500 µs between rounds: 1400 µs a step."""
    events = []
    for i in range(40):
        at = 100 * i + 400 * (i // 10)
        events += launch(f"k{i % 10}", at, at + 7, 20, i + 1)
    graph = graph_of(tmp_path, events)
    assert "repeats" in graph.health.step_label
    assert graph.health.steps == ("period 0", "period 1", "period 2", "period 3")
    assert graph.measured_step_ns == 1_400_000
    assert any("--step-marker" in warning for warning in graph.health.warnings)


@pytest.mark.parametrize(
    ("names", "period"),
    [
        (list(range(12)) * 4, 12),  # steps that repeat
        ([0, 1, 2, 3, 4, 5, 6, 7] * 3 * 3, 8),  # no seam between steps: the shortest unit
        (([*range(8)] * 4 + [20, 21, 22, 23]) * 3, 36),  # four layers and a tail: the step, not the layer
        ([*range(100, 108), *[*range(9)] * 6, *range(200, 208)], 0),  # six layers of one pass are no steps
        (list(range(12)) * 2, 0),  # twice is no habit
        ([0] * 100, 0),  # one kernel over and over
    ],
)
def test_a_period_is_the_shortest_of_the_best_match(names: list[int], period: int) -> None:
    assert find_period(np.array(names)) == period


def test_an_input_without_work_is_refused(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [span("o", 0, 10, cat="overhead")])
    with pytest.raises(RefusedError, match="nothing to replay"):
        build(trace)


def test_work_launched_before_the_step_is_replayed_as_backlog(tmp_path: Path) -> None:
    """A kernel of 1000 µs is half done when the step begins; at double speed the step gets all of that back."""
    events = [*launch("old", 0, 10, 1000, 1), step(600, begin=510), *launch("new", 520, 1010, 100, 2)]
    graph = graph_of(tmp_path, events)
    assert graph.measured_step_ns == 600_000
    assert int(graph.duration_ns[find(graph, "old")]) == 500_000
    assert step_us(graph, device=0.5) == pytest.approx(300)


def graph_launches(first: float, second: float) -> list[dict[str, Any]]:
    """Two steps with one graph launch each, whose first recorded node comes that late after the launch."""
    events: list[dict[str, Any]] = []
    for i, lead in enumerate((first, second)):
        begin = 10_000 * i
        events += [step(begin + 100, i, begin), call("cudaGraphLaunch", begin + 10, 20, i + 1)]
        events += [work("node_a", begin + lead, 100, i + 1), work("node_b", begin + lead + 150, 100, i + 1)]
    return events


def test_a_device_graph_keeps_its_gaps(tmp_path: Path) -> None:
    """One launch edge to the first node; the gap of 50 µs between nodes is the graph's own."""
    graph = graph_of(tmp_path, graph_launches(20, 20), number=0)
    a, b = find(graph, "node_a"), find(graph, "node_b")
    assert edges_into(graph, b, Rule.LAUNCH) == []
    assert edges_into(graph, b, Rule.GRAPH) == [a]
    assert step_us(graph, device=2) == pytest.approx(20 + 200 + 50 + 200)


def test_dropped_nodes_at_the_head_of_a_graph_are_its_own_time(tmp_path: Path) -> None:
    """Leads of 3000 and 3500 µs: 2990 after the launch is the graph's, the rest of the second is waiting."""
    graph = graph_of(tmp_path, graph_launches(3000, 3500), number=1)
    assert graph.health.unrecorded_ns == 2_990_000 + 50_000
    assert any("without a recorded node" in warning for warning in graph.health.warnings)


def test_a_host_that_polls_a_flag_waits_for_the_kernel_that_sets_it(tmp_path: Path) -> None:
    """The thread is silent from the notify kernel's launch to its end; with it at half, the host goes on sooner."""
    name = "void deep_ep::internode::notify_dispatch<false, 8>(int)"
    events = [step(1200), *launch(name, 0, 10, 900, 1), op("aten::empty", 915, 5), op("aten::a", 930, 270)]
    graph = graph_of(tmp_path, events)
    assert (graph.edges.rule == Rule.SPIN).sum() == 1
    assert step_us(graph) == pytest.approx(1200)
    assert step_us(graph, device=0.5) == pytest.approx(1200 - 450)


def test_kernels_without_a_launch_keep_their_order(tmp_path: Path) -> None:
    events = [step(300), *launch("a", 0, 7, 50, 1), work("lost", 60, 50, 99), *launch("b", 20, 110, 50, 2)]
    graph = graph_of(tmp_path, events)
    assert edges_into(graph, find(graph, "b"), Rule.STREAM_ORDER) == [find(graph, "lost")]
    assert any("no launch call" in warning for warning in graph.health.warnings)


def test_a_collective_kernel_is_an_arrival_and_a_transfer(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, [step(300), *launch("ncclDevKernel_AllGather_RING_LL(x)", 0, 7, 50, 1, stream=COMM)])
    assert {OpKind(k) for k in graph.kind} >= {OpKind.ARRIVAL, OpKind.TRANSFER}


MEASURED = Measured(np.array([0, 100, 200]) * 1000, np.array([90, 190, 290]) * 1000)


def test_an_edge_against_the_measured_order_is_dropped() -> None:
    edges = EdgeList.of(Rule.EVENT, [0, 2], [1, 1], recorded=False)
    kept, dropped = drop_contradictions(edges, MEASURED)
    assert (list(kept.source), dropped) == ([0], 1)


def test_a_cycle_loses_its_weakest_inferred_edge() -> None:
    """0 → 1 → 2 → 0: the inferred edge from 2 back to 0 fits worst."""
    edges = EdgeList.of(Rule.EVENT, [0, 1, 2], [1, 2, 0], recorded=np.array([True, False, False]))
    kept, broken = break_cycles(edges, MEASURED)
    assert (list(kept.source), list(kept.target), broken) == ([0, 1], [1, 2], 1)


def test_a_cycle_of_certain_edges_is_an_error() -> None:
    edges = EdgeList.of(Rule.STREAM_ORDER, [0, 1], [1, 0])
    with pytest.raises(GraphError, match="cycle"):
        break_cycles(edges, MEASURED)


def test_a_typical_delay_ignores_what_waits_added() -> None:
    """Delays 4, 5, 6, 5 and two waits of 400: the mechanism takes 5."""
    assert typical_delay(np.array([4, 5, 6, 5, 400, 400]) * 1000) == 5_000


def test_a_lag_is_learned_where_its_edge_was_the_last() -> None:
    """Edges 0 → 1 (10 µs) and 1 → 2 (10 µs) were alone: their lag is 10 µs."""
    edges = EdgeList.of(Rule.STREAM_ORDER, [0, 1], [1, 2])
    assert learn_lag(edges, MEASURED, np.array([True, True])) == 10_000


def test_work_that_starts_before_its_launch_is_said(tmp_path: Path) -> None:
    """One of two kernels starts 30 µs before its call; 5 µs would be the clocks' usual difference."""
    graph = graph_of(tmp_path, [step(300), *launch("a", 50, 20, 10, 1), *launch("b", 100, 95, 10, 2)])
    (warning,) = graph.health.warnings
    assert warning.startswith("1 of 2 launched device ops of the step start before their launch call, by up to 30.0 us")
