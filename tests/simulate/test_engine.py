"""The engine against its specification, and the laws every execution obeys."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.core.errors import GraphError
from replay.graph.types import Graph
from replay.simulate import reference
from replay.simulate.engine import plan, simulate
from tests.synthetic import Op, graph_of, graphs, permuted


def test_starts_at_the_latest_of_ready_time_and_edges() -> None:
    graph = graph_of([Op("a", 10), Op("b", 5, ready=12), Op("c", 1, [(0, 3), (1, 0, "start"), (1, 2)])])
    timeline = simulate(graph)
    assert timeline.start_ns.tolist() == [0, 12, 19]
    assert timeline.bound_by.tolist() == [-1, -1, 2]
    assert timeline.step_ns == 20


def test_the_first_edge_wins_a_tie_before_the_ready_time() -> None:
    """An edge explains more than a time does."""
    graph = graph_of([Op("a", 5), Op("b", 5), Op("c", 1, [1, 0]), Op("d", 1, [0], ready=5)])
    assert simulate(graph).bound_by.tolist() == [-1, -1, 0, 2]


def test_residuals_delay_only_when_asked_for() -> None:
    graph = graph_of([Op("a", 5), Op("b", 5, [0], residual=7)])
    assert simulate(graph).step_ns == 10
    assert simulate(graph, residuals=True).step_ns == 17


@given(graphs(), st.booleans())
def test_kernel_equals_reference(graph: Graph, residuals: bool) -> None:
    got, want = simulate(graph, residuals=residuals), reference.simulate(graph, residuals=residuals)
    for column in ("start_ns", "end_ns", "bound_by"):
        np.testing.assert_array_equal(getattr(got, column), getattr(want, column))


@given(graphs())
def test_step_covers_every_path_and_every_op(graph: Graph) -> None:
    timeline = simulate(graph)
    source = timeline.end_ns[graph.edges.source]
    source = np.where(graph.edges.from_start, timeline.start_ns[graph.edges.source], source)
    assert (timeline.start_ns[graph.edges.target] >= source + graph.edges.lag_ns).all()
    assert (timeline.start_ns >= graph.ready_ns).all()
    assert timeline.step_ns >= graph.duration_ns.max()


@given(graphs(), st.integers(1, 1000))
def test_scaling_all_times_scales_the_result(graph: Graph, k: int) -> None:
    longer = replace(
        graph,
        duration_ns=graph.duration_ns * k,
        ready_ns=graph.ready_ns * k,
        edges=replace(graph.edges, lag_ns=graph.edges.lag_ns * k),
    )
    before, after = simulate(graph), simulate(longer)
    np.testing.assert_array_equal(after.start_ns, before.start_ns * k)
    np.testing.assert_array_equal(after.bound_by, before.bound_by)


@given(graphs(), st.randoms(use_true_random=False))
def test_renumbering_ops_changes_nothing(graph: Graph, random: Random) -> None:
    order = list(range(len(graph)))
    random.shuffle(order)
    before, after = simulate(graph), simulate(permuted(graph, np.array(order)))
    np.testing.assert_array_equal(after.start_ns, before.start_ns[order])


@given(graphs())
def test_a_plan_serves_other_durations(graph: Graph) -> None:
    longer = graph.with_durations(graph.duration_ns * 3)
    np.testing.assert_array_equal(simulate(longer, plan=plan(graph)).end_ns, simulate(longer).end_ns)


def test_empty_graph_has_nothing_to_run() -> None:
    with pytest.raises(GraphError, match="nothing to run"):
        simulate(graph_of([]))


def test_times_beyond_int64_are_refused() -> None:
    with pytest.raises(GraphError, match="146 years"):
        simulate(graph_of([Op("a", 2**62), Op("b", 2**62, [0])]))


def test_negative_duration_is_refused_by_name() -> None:
    with pytest.raises(GraphError, match=r"rank 0, stream 7: bad has a negative duration of -4 ns"):
        simulate(graph_of([Op("bad", -4)]))


def test_edge_from_nowhere_is_refused() -> None:
    with pytest.raises(GraphError, match="edge 0 comes from op 5"):
        simulate(graph_of([Op("a", 1, [5])]))


def test_deadlock_names_ranks_ops_and_the_cycle() -> None:
    """Two ranks that each receive before they send."""
    graph = graph_of(
        [
            Op("start", 1),
            Op("recv", 1, [0, 4], start=1),
            Op("send", 1, [1], start=2),
            Op("recv", 1, [2], rank=1, start=0),
            Op("send", 1, [3], rank=1, start=2),
            Op("after", 1, [4], rank=2),
        ]
    )
    with pytest.raises(GraphError) as error:
        simulate(graph)
    message = str(error.value)
    assert "5 of 6 ops can never start" in message
    assert "rank 0, stream 7: recv waits for rank 1, stream 7: send" in message
    assert "rank 1, stream 7: recv waits for rank 0, stream 7: send" in message
    assert "rank 2" not in message
    assert (
        "Cycle of 4: rank 0, stream 7: recv ← rank 1, stream 7: send ← rank 1, stream 7: recv ← "
        "rank 0, stream 7: send ← rank 0, stream 7: recv" in message
    )


def test_an_op_that_waits_for_itself_is_a_deadlock() -> None:
    with pytest.raises(GraphError, match="Cycle of 1: rank 0, stream 7: a ← rank 0, stream 7: a"):
        simulate(graph_of([Op("a", 1, [0])]))
