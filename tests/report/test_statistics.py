"""Totals by kind and group, by hand."""

from __future__ import annotations

from replay.graph.types import Graph, OpKind
from replay.report.statistics import collectives
from replay.trace import CollectiveKind, Group
from tests.synthetic import Comm, Op, graph_of

TP = "TENSOR_MODEL_PARALLEL_GROUP"


def all_reduces(groups: list[Group], duration: int = 1_000_000) -> Graph:
    """One all-reduce of 100 bytes in each group."""
    ops = [Op("all_reduce", duration, kind=OpKind.TRANSFER, comm=i, rank=i) for i in range(len(groups))]
    comms = [Comm(CollectiveKind.ALL_REDUCE, i, 100, size=len(group.ranks)) for i, group in enumerate(groups)]
    return graph_of(ops, comms=comms, groups=groups)


def test_groups_of_one_meaning_are_added_up() -> None:
    """Two tensor-parallel groups: two calls, 200 bytes, 2 ms; the wider one spans two nodes."""
    (row,) = collectives(all_reduces([Group("1", TP, (0, 1)), Group("2", TP, (7, 8))]))
    assert (row.kind, row.group, row.size_before, row.nodes_before) == ("all_reduce", "tp", 2, 2)
    assert (row.calls_before, row.nbytes_before, row.transfer_ms_before) == (2, 200, 2.0)
    assert row.calls_after is None


def test_before_and_after_stand_side_by_side() -> None:
    """A group that is gone has no after, one that is new no before."""
    before = all_reduces([Group("1", "A", (0, 1))])
    after = all_reduces([Group("1", "B", (0, 1))])
    rows = {row.group: row for row in collectives(before, after)}
    assert (rows["A"].calls_before, rows["A"].calls_after) == (1, None)
    assert (rows["B"].calls_before, rows["B"].calls_after) == (None, 1)


def test_a_group_of_one_exchanges_nothing() -> None:
    """Its rows would claim traffic that there is not."""
    assert collectives(all_reduces([Group("1", TP, (0,))])) == ()
