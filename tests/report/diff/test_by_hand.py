"""Small steps whose differences are known by arithmetic."""

from __future__ import annotations

import pytest

from replay.graph.types import Graph, OpKind, Rule
from replay.report.accuracy import measured_timeline
from replay.report.breakdown import breakdown
from replay.report.diff.compare import compare
from replay.report.diff.types import Execution, OpFacts, Side
from replay.report.slices import Run
from replay.simulate.engine import simulate
from replay.trace import CollectiveKind, Group
from tests.synthetic import Comm, Op, graph_of

MS = 1_000_000


def side(graph: Graph, label: str, spread: float | None = None) -> Side:
    """A graph as it was measured."""
    faithful = simulate(graph, residuals=True)
    measured = measured_timeline(graph, faithful)
    nothing = ("",) * len(graph)
    states = breakdown(graph, measured, graph.measured_step_ns)
    execution = Execution(Run(label, graph, measured), faithful, states, OpFacts(nothing, nothing))
    return Side(source="trace", name=label, step_ns=graph.measured_step_ns, spread_pct=spread, execution=execution)


def two_streams(left: int, right: int) -> Graph:
    """A kernel on each of two streams."""
    return graph_of([
        Op("left", left * MS, start=0), Op("right", right * MS, start=0, lane="stream 8"),
    ])  # fmt: skip


def all_reduce(first: int, second: int) -> Graph:
    """A kernel on each of two ranks, then an all-reduce of 2 ms that starts when both are there."""
    late = max(first, second) * MS
    ops = []
    for rank, length in enumerate((first, second)):
        base = 3 * rank
        ops += [
            Op("gemm", length * MS, rank=rank, start=0),
            Op("ar", 0, [base], rank, "stream 9", OpKind.ARRIVAL, start=length * MS, comm=rank),
            Op("ar", 2 * MS, [1, 4], rank, "stream 9", OpKind.TRANSFER, start=late, comm=rank, rule=Rule.COLLECTIVE),
        ]
    comms = [Comm(CollectiveKind.ALL_REDUCE, group=0, match=7, size=2) for _ in range(2)]
    return graph_of(ops, comms=comms, groups=[Group("dp", ranks=(0, 1))])


def test_two_equal_paths_share_the_difference() -> None:
    """From 10 to 14 and from 10 to 12 ms: made first they move the step by 4 and 2 ms, made last by 2 and 0."""
    found = compare(side(two_streams(10, 10), "a"), side(two_streams(14, 12), "b"))
    assert {cause.what: cause.effect_ms for cause in found.causes} == {"left x1.400": 3.0, "right x1.200": 1.0}
    assert found.explained_ms == 4.0


def test_one_factor_for_all_kernels_is_one_cause() -> None:
    """As another clock would do."""
    found = compare(side(two_streams(10, 20), "a"), side(two_streams(11, 22), "b"))
    assert [(cause.what, cause.effect_ms) for cause in found.causes] == [("all kernels x1.100", 2.0)]


def test_a_change_off_the_critical_path_moves_nothing() -> None:
    """The right kernel has 10 ms to spare."""
    found = compare(side(two_streams(20, 5), "a"), side(two_streams(20, 9), "b"))
    assert found.difference_ns == 0
    assert [(cause.what, cause.effect_ms) for cause in found.causes] == [("right x1.800", 0.0)]


def test_the_late_rank_is_the_cause_and_the_wait_its_consequence() -> None:
    """Rank 1 takes 9 ms instead of 5: rank 0 waits 4 ms longer, and only rank 1's kernel is named."""
    found = compare(side(all_reduce(5, 5), "a"), side(all_reduce(5, 9), "b"))
    (cause,) = found.causes
    assert (cause.what, cause.ranks, cause.effect_ms) == ("gemm x1.800", (1,), 4.0)
    (wait,) = found.waits
    assert (wait.op, wait.ranks, wait.difference_ms) == ("all_reduce (dp)", (0,), 4.0)
    assert found.rank == 1
    assert found.parts_ns == {**dict.fromkeys(found.parts_ns, 0), "compute": 4 * MS}
    assert found.parts_by_rank_ns[0]["wait"] == 4 * MS


@pytest.mark.parametrize(("spread", "within"), [(None, None), (10.0, True), (1.0, False)])
def test_the_spread_of_the_steps_decides_what_is_noise(spread: float | None, within: bool | None) -> None:
    """4 ms more than 20: two sigma of the difference are 6.2 ms at 10 %, 0.6 ms at 1 %."""
    found = compare(side(two_streams(20, 5), "a", spread), side(two_streams(24, 5), "b", spread))
    assert found.within_spread is within


def test_ranks_of_one_side_only_are_left_out_and_said() -> None:
    """Rank 1 is only in a."""
    found = compare(side(all_reduce(5, 5), "a"), side(graph_of([Op("gemm", 6 * MS, start=0)]), "b"))
    assert found.ranks == (0,)
    assert "1 ranks are only in a and are not compared" in found.notes
