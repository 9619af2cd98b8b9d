"""``--link``: which transfers a tier names, and what stays of a transfer when links get faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.core.errors import RefusedError
from replay.graph.types import Graph, OpKind, Rule
from replay.trace import CollectiveKind, Group
from replay.whatif import link
from tests.synthetic import Comm, Op, graph_of

GROUPS = [
    Group("1", "TENSOR_MODEL_PARALLEL_GROUP", (0, 1, 2, 3)),
    Group("2", "EXPERT_MODEL_PARALLEL_GROUP", (0, 8)),
    Group("3", "DATA_PARALLEL_GROUP", size=64),
    Group("4", "default_pg", size=4),
]


def transfers(*comms: Comm, durations: tuple[int, ...]) -> Graph:
    ops = [Op("t", ns, kind=OpKind.TRANSFER, comm=row) for row, ns in enumerate(durations)]
    return graph_of(ops, comms=comms, groups=GROUPS)


ONE_EACH = transfers(*(Comm(CollectiveKind.ALL_REDUCE, group) for group in range(4)), durations=(1000,) * 4)


@pytest.mark.parametrize(
    ("tier", "halved"),
    [("all", [0, 1, 2, 3]), ("tp", [0]), ("EP", [1]), ("dp", [2]), ("other", [3]), ("intra", [0]), ("inter", [1, 2])],
)
def test_tiers(tier: str, halved: list[int]) -> None:
    """Group 3 spans nodes because 64 ranks fit in none; whether group 4 does is not known."""
    durations = link.apply(ONE_EACH, tier, 2.0).duration_ns.tolist()
    assert durations == [500 if row in halved else 1000 for row in range(4)]


def test_nodes_may_hold_another_number_of_devices() -> None:
    assert link.apply(ONE_EACH, "inter", 2.0, devices_per_node=2).duration_ns.tolist() == [500, 500, 500, 500]


def test_the_latency_stays_where_a_small_message_tells_it() -> None:
    """A 4 KiB message takes 200 ns, so of 1000 ns for 1 MiB 800 are bytes: 200 + 800 / 2."""
    graph = transfers(
        Comm(CollectiveKind.ALL_GATHER, 0, 4096), Comm(CollectiveKind.ALL_GATHER, 0, 1 << 20), durations=(200, 1000)
    )
    assert link.apply(graph, "tp", 2.0).duration_ns.tolist() == [200, 600]
    assert link.apply(graph, "tp", 0.5).duration_ns.tolist() == [200, 1800]


def test_another_collective_or_group_tells_no_latency() -> None:
    graph = transfers(
        Comm(CollectiveKind.ALL_REDUCE, 0, 8), Comm(CollectiveKind.ALL_GATHER, 0, 1 << 20), durations=(200, 1000)
    )
    assert link.apply(graph, "tp", 2.0).duration_ns.tolist() == [200, 500]


def test_control_exchanges_carry_no_bytes() -> None:
    graph = transfers(Comm(CollectiveKind.NOTIFY, 1), Comm(CollectiveKind.DISPATCH, 1), durations=(300, 1000))
    assert link.apply(graph, "ep", 2.0).duration_ns.tolist() == [300, 500]


def test_the_lag_of_a_stage_hand_over_is_a_transfer() -> None:
    graph = graph_of([Op("F0", 100), Op("F0", 100, [(0, 40)], rank=1, rule=Rule.P2P)])
    assert link.targets(graph) == ("all", "intra", "pp")
    assert link.apply(graph, "pp", 4.0).edges.lag_ns.tolist() == [10]


def test_an_absent_tier_is_refused_with_those_present() -> None:
    with pytest.raises(RefusedError, match=r"tiers of this input: all, intra, tp$"):
        link.apply(transfers(Comm(CollectiveKind.ALL_REDUCE, 0), durations=(10,)), "dp", 2.0)


def test_a_word_that_is_no_tier_is_refused_with_those_present() -> None:
    with pytest.raises(RefusedError, match=r"'rdma' is no tier; tiers of this input: all, intra, tp$"):
        link.apply(transfers(Comm(CollectiveKind.ALL_REDUCE, 0), durations=(10,)), "rdma", 2.0)


def test_links_without_bandwidth_are_refused() -> None:
    with pytest.raises(RefusedError, match="more than 0, got 0"):
        link.apply(ONE_EACH, "tp", 0.0)


def test_recorded_links_are_tiers() -> None:
    """Of the second transfer a quarter of the link time is RDMA: 750 + 250 / 2. RDMA alone leaves a node."""
    graph = transfers(*(Comm(CollectiveKind.ALL_REDUCE, group) for group in (3, 3, 1)), durations=(1000, 1000, 1000))
    links = {"HCCS": np.array([1.0, 0.75, 0.0]), "RDMA": np.array([0.0, 0.25, 0.0])}
    graph = replace(graph, comms=replace(graph.comms, links=links))
    halved = {"rdma": [1000, 875, 1000], "HCCS": [500, 625, 1000], "intra": [500, 625, 1000], "inter": [1000, 875, 500]}
    for tier, durations in halved.items():
        assert link.apply(graph, tier, 2.0).duration_ns.tolist() == durations, tier
    assert link.targets(graph) == ("all", "intra", "inter", "ep", "other", "hccs", "rdma")


def test_a_kernel_that_computes_too_only_loses() -> None:
    """Whether its links or its product bound it is not known."""
    op = Op("aclnnMatmulAllReduce_MatmulAllReduce_MatmulAllReduce", 1000, kind=OpKind.TRANSFER, comm=0)
    graph = graph_of([op], comms=[Comm(CollectiveKind.ALL_REDUCE, 0)], groups=GROUPS)
    assert [int(link.apply(graph, "tp", factor).duration_ns[0]) for factor in (2.0, 0.5)] == [1000, 2000]
    assert [link.held(graph, "tp", factor) for factor in (2.0, 0.5)] == [1, 0]
    assert link.held(graph, "ep", 2.0) == 0
