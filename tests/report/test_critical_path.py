"""The critical path fills the step, by hand and on any graph."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.graph.types import Graph, OpKind, Rule
from replay.report.critical_path import Part, contributions, critical_path
from replay.simulate.engine import simulate
from tests.synthetic import Op, graph_of, graphs

CHAIN = graph_of(
    [
        Op("launch", 20, lane="thread 1", kind=OpKind.CALL, ready=5),
        Op("gemm", 100, [(0, 3, "start")], residual=2, rule=Rule.LAUNCH),
        Op("short", 1),
    ]
)


def test_path_of_a_launched_kernel() -> None:
    """The launch is ready at 5, the kernel follows 3 ns after its start, 2 ns late for no reason, and runs 100."""
    path = critical_path(CHAIN, simulate(CHAIN, residuals=True))
    assert path.part.tolist() == [Part.READY, Part.LAG, Part.RESIDUAL, Part.OP]
    assert path.time_ns.tolist() == [5, 3, 2, 100]
    assert path.op.tolist() == [0, 1, 1, 1]
    assert path.to_frame(CHAIN)["name"].tolist() == ["ready", "lag", "residual", "gemm"]


def test_contributions_by_rule_and_name() -> None:
    path = critical_path(CHAIN, simulate(CHAIN))
    assert [(c.label, c.time_ns) for c in contributions(path, CHAIN, "rule")] == [("launch", 103), ("none", 5)]
    assert [(c.label, c.segments) for c in contributions(path, CHAIN, "name")] == [
        ("gemm", 1),
        ("ready", 1),
        ("lag", 1),
    ]


def test_a_negative_lag_cuts_the_source_short() -> None:
    """b starts 4 ns before a ends, so a fills only its first 6 ns."""
    graph = graph_of([Op("a", 10), Op("b", 10, [(0, -4)])])
    path = critical_path(graph, simulate(graph))
    assert path.time_ns.tolist() == [6, 10]


@given(graphs(), st.booleans())
def test_segments_fill_the_step_without_gaps(graph: Graph, residuals: bool) -> None:
    timeline = simulate(graph, residuals=residuals)
    path = critical_path(graph, timeline)
    assert path.time_ns.sum() == timeline.step_ns
    assert (path.time_ns > 0).all()
    np.testing.assert_array_equal(path.begin_ns[1:], path.end_ns[:-1])
    for key in ("name", "kind", "rank", "rule", "part"):
        assert sum(c.time_ns for c in contributions(path, graph, key)) == timeline.step_ns
