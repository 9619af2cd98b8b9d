"""Contract of every graph-level what-if: found by scanning the folder, so that a new file is checked too."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.core.plugins import members
from replay.graph.types import Graph, OpKind, Rule
from replay.trace import CollectiveKind, Group
from tests.synthetic import Comm, Op, graph_of

MEMBERS = [
    module
    for module in members("replay.whatif").values()
    if getattr(module, "LEVEL", "") == "graph" and hasattr(module, "apply")
]
GROUPS = [Group("1", "TENSOR_MODEL_PARALLEL_GROUP", (0, 1)), Group("2", "DATA_PARALLEL_GROUP", (0, 8))]
EVERYTHING = graph_of(
    [
        Op("launch", 100, lane="thread 1", kind=OpKind.CALL),
        Op("sm90_gemm", 1000, [(0, 5)]),
        Op("ar", 0, [1], kind=OpKind.ARRIVAL, comm=0),
        Op("ar", 400, [2], kind=OpKind.TRANSFER, comm=0),
        Op("rs", 800, [3], kind=OpKind.TRANSFER, comm=1),
        Op("copy", 50, [4], kind=OpKind.MEMCPY),
        Op("next", 300, [(1, 90)], rank=8, rule=Rule.P2P),
    ],
    comms=[Comm(CollectiveKind.ALL_REDUCE, 0), Comm(CollectiveKind.REDUCE_SCATTER, 1, match=1)],
    groups=GROUPS,
)

each_member = pytest.mark.parametrize("whatif", MEMBERS, ids=lambda module: module.__name__.rpartition(".")[2])


def times(graph: Graph) -> list[int]:
    """Everything that a what-if may edit."""
    return [*graph.duration_ns.tolist(), *graph.edges.lag_ns.tolist()]


def test_the_known_members_are_found() -> None:
    assert {"replay.whatif.scale", "replay.whatif.link"} <= {module.__name__ for module in MEMBERS}


def neutral(whatif: ModuleType) -> float:
    """The number that changes nothing: factor 1, or no time."""
    return 0.0 if getattr(whatif, "UNIT", "") else 1.0


@each_member
def test_factor_one_changes_nothing(whatif: ModuleType) -> None:
    for target in whatif.targets(EVERYTHING):
        edited = whatif.apply(EVERYTHING, target, neutral(whatif))
        assert times(edited) == times(EVERYTHING)
        assert (edited.grade == EVERYTHING.grade).all()


@each_member
def test_what_changes_is_graded_scaled_and_the_rest_kept(whatif: ModuleType) -> None:
    for target in whatif.targets(EVERYTHING):
        edited = whatif.apply(EVERYTHING, target, 2.0)
        changed = edited.duration_ns != EVERYTHING.duration_ns
        assert times(edited) != times(EVERYTHING)
        np.testing.assert_array_equal(edited.grade, np.where(changed, Grade.SCALED, Grade.MEASURED))
        np.testing.assert_array_equal(edited.edges.source, EVERYTHING.edges.source)


@each_member
def test_edits_compose_in_any_order(whatif: ModuleType) -> None:
    first, *_, last = whatif.targets(EVERYTHING)
    one = whatif.apply(whatif.apply(EVERYTHING, first, 2.0), last, 0.5)
    other = whatif.apply(whatif.apply(EVERYTHING, last, 0.5), first, 2.0)
    assert times(one) == times(other)


@each_member
@pytest.mark.parametrize("factor", [-1.0, float("nan"), float("inf"), 1e7, 1e-300])
def test_senseless_factors_are_refused(whatif: ModuleType, factor: float) -> None:
    with pytest.raises(RefusedError, match=whatif.OPTION):
        whatif.apply(EVERYTHING, whatif.targets(EVERYTHING)[0], factor)


@each_member
def test_a_target_without_match_is_refused_and_others_are_named(whatif: ModuleType) -> None:
    with pytest.raises(RefusedError, match=r"all"):
        whatif.apply(EVERYTHING, "no such thing", 2.0)
