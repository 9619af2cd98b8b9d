"""Times of collectives from a hardware profile: fits first, then tiers put together, then the datasheet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hwprofiles
from hwprofiles import HardwareProfile, Parameter
from hwprofiles.fitted import Fitted, Score
from replay.collectives import _hccl
from replay.collectives._link import Link, Protocol
from replay.collectives._network import best_fit, collective_time
from replay.collectives._two_tiers import Nodes, ring_time_ns, tree_time_ns
from replay.core.errors import ProfileError
from replay.core.evidence import Grade
from replay.trace import CollectiveKind

REDUCE, GATHER = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER


def flat(**values: float) -> dict[str, Parameter]:
    return {name: Parameter(value, "B/s", Grade.DATASHEET, "test") for name, value in values.items()}


def profile(*fits: Fitted, **values: float) -> HardwareProfile:
    return HardwareProfile("test", "test", (), flat(**values), fits)


def fitted(model: str, tier: str, score_pct: float, latency_ns: float = 100.0, bytes_per_s: float = 1e9) -> Fitted:
    values = {
        "floor_ns": 1.0,
        "latency_ns": latency_ns,
        "bytes_per_s": bytes_per_s,
        "small_latency_ratio": 1.0,
        "small_bandwidth_ratio": 1e-3,  # never the faster way in these tests
    }
    parameters = {name: Parameter(value, "", Grade.FITTED, "test") for name, value in values.items()}
    return Fitted(
        model,
        {"op": "all_reduce", "tier": tier},
        parameters,
        {"nbytes": (1e3, 1e6), "ranks": (2, 8)},
        {"random half": Score(score_pct, 2 * score_pct, 10)},
    )


def test_the_algorithm_that_predicted_held_out_samples_best_is_taken() -> None:
    found = best_fit(
        profile(fitted("ring_all_reduce", "intra_node", 9.0), fitted("tree_all_reduce", "intra_node", 3.0)),
        REDUCE,
        "intra_node",
    )
    assert found is not None
    assert found.model == "tree_all_reduce"


def test_the_usual_algorithm_stays_unless_another_is_clearly_better() -> None:
    ring, tree = fitted("ring_all_reduce", "intra_node", 3.0), fitted("tree_all_reduce", "intra_node", 2.1)
    assert best_fit(profile(ring, tree), REDUCE, "intra_node") == ring


def test_a_message_in_a_group_over_nodes_takes_the_link_between_nodes() -> None:
    """1 MB at 1 GB/s is 1 ms, whatever links are inside a node."""
    kind = CollectiveKind.SEND_RECV
    found = collective_time(profile(intra_node_bytes_per_s=1e11, inter_node_bytes_per_s=1e9), kind, [1e6], Nodes(2, 8))
    assert found is not None
    assert found.time_ns == pytest.approx(1e6)


def test_sizes_beyond_the_calibrated_range_are_extrapolated() -> None:
    found = collective_time(profile(fitted("ring_all_reduce", "intra_node", 1.0)), REDUCE, [4e3, 4e9], Nodes(1, 4))
    assert found is not None
    assert found.time_ns[0] == pytest.approx(1 + 6 * 100 + 6000, rel=1e-3)
    assert found.grade.tolist() == [Grade.FITTED, Grade.EXTRAPOLATED]


def test_nodes_of_several_ranks_are_put_together_from_both_tiers() -> None:
    """2 nodes of 4: 14 ring steps of the slower latency (1,000 ns) or a tree (4 · 100 + 2 · 1,000 ns); 14,000 bytes at
    1 GB/s inside, 4 cards of 0.5 GB/s between nodes."""
    both = profile(
        fitted("ring_all_reduce", "intra_node", 1.0),
        fitted("ring_all_reduce", "inter_node", 1.0, latency_ns=1000.0, bytes_per_s=5e8),
    )
    found = collective_time(both, REDUCE, 8e3, Nodes(2, 4))
    assert found is not None
    assert found.time_ns[0] == pytest.approx(1 + 2400 + 14_000, rel=1e-3)
    assert found.grade[0] == Grade.EXTRAPOLATED


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (replace(fitted("ring_all_reduce", "intra_node", 1.0), model="ring"), "'ring' is no known collective"),
        (replace(fitted("ring_all_reduce", "intra_node", 1.0), parameters={}), "lacks bytes_per_s, floor_ns"),
    ],
)
def test_a_fit_that_no_model_can_use_is_named(fit: Fitted, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        collective_time(profile(fit), REDUCE, 4e3, Nodes(1, 4))


def test_without_fits_the_datasheet_answers() -> None:
    found = collective_time(profile(intra_node_bytes_per_s=1e9), REDUCE, 4e3, Nodes(1, 4))
    assert found is not None
    assert found.time_ns[0] == 6000
    assert found.grade[0] == Grade.DATASHEET


def test_a_link_that_the_profile_lacks_gives_no_answer() -> None:
    assert collective_time(profile(intra_node_bytes_per_s=1e9), REDUCE, 4e3, Nodes(4, 2)) is None
    assert collective_time(profile(), CollectiveKind.BARRIER, 4e3, Nodes(1, 2)) is None


def test_a_mesh_grows_with_its_group() -> None:
    """All-gather of 8,000 bytes over pair links of 1 GB/s: 4,000, 2,000 and 1,000 ns among 2, 4 and 8 devices."""
    mesh = profile(intra_node_pair_bytes_per_s=1e9, intra_node_bytes_per_s=7e9)
    found = [collective_time(mesh, CollectiveKind.ALL_GATHER, 8e3, Nodes(1, n)) for n in (2, 4, 8)]
    assert [one.time_ns[0] for one in found if one] == [4000, 2000, 1000]


def test_hccl_halves_between_servers_when_small_and_many() -> None:
    """64 servers, 1 GB/s, 1,000 ns: 64 bytes take 12 steps of halving-doubling; a ring would take 126."""
    assert _hccl.between_servers_ns(REDUCE, 64.0, 64, Link(1e9, 1000.0)) == pytest.approx(12_000 + 126)


def test_hccl_over_servers_is_mesh_exchange_mesh() -> None:
    """2 servers of 4, 8,000 bytes: two mesh steps of 2,000 ns, and 2,000 bytes all-reduced between two (2,000 ns)."""
    assert _hccl.time_ns(REDUCE, 8e3, Nodes(2, 4), Link(1e9), Link(1e9)) == pytest.approx(4000 + 2000)


def test_steps_of_a_ring_over_nodes_take_its_slowest_hop() -> None:
    assert ring_time_ns(1e3, 7, Nodes(2, 4), Link(1e9, 10.0), Link(1e9, 50.0)) == pytest.approx(7 * 50 + 1000)


def test_latencies_of_a_tree_over_nodes_add_up() -> None:
    """4 nodes of 2: 2 steps inside (10 ns), 4 between (50 ns), 2 · 7/8 of 1,000 bytes at 1 GB/s."""
    assert tree_time_ns(1e3, Nodes(4, 2), Link(1e9, 10.0), Link(1e9, 50.0)) == pytest.approx(20 + 200 + 1750)


def test_a_link_takes_the_faster_protocol() -> None:
    """1 byte/ns after 1,000 ns, or 0.1 byte/ns at once: 10 bytes take 100 ns, a million bytes a millisecond."""
    link = Link(1e9, 1000.0, 0.0, (Protocol(1e8, 0.0),))
    assert np.allclose(link.time_ns([10.0, 1e6]), [100.0, 1_001_000.0], rtol=1e-3)


def test_protocols_that_cost_the_same_join_without_a_kink() -> None:
    link = Link(1e9, 900.0, 0.0, (Protocol(1e8, 0.0),))  # equal at 100 bytes: 1,000 ns each
    assert link.time_ns(100.0) == pytest.approx(1000 * 2 ** (-1 / 4))


@pytest.mark.parametrize(
    ("kind", "cards", "published"),
    [(GATHER, 2, 38.0), (GATHER, 4, 64.0), (GATHER, 8, 149.0), (REDUCE, 2, 18.0), (REDUCE, 4, 30.0), (REDUCE, 8, 72.0)],
)
def test_a_910b_node_moves_as_much_as_was_published(kind: CollectiveKind, cards: int, published: float) -> None:
    """GB/s of a large message over 2, 4 and 8 cards (limulidae): the mesh explains 2 and 8, four run 20 % below it."""
    found = collective_time(hwprofiles.load("ascend-910b2"), kind, 1e9, Nodes(1, cards))
    assert found is not None
    assert 1e9 / float(found.time_ns[0]) == pytest.approx(published, rel=0.28)


def test_two_devices_of_a_mesh_have_one_link() -> None:
    """A message goes over the pair's link, not over all seven: 1e6 bytes in 1e6 ns, not 1e6 / 7."""
    mesh = profile(intra_node_pair_bytes_per_s=1e9, intra_node_bytes_per_s=7e9)
    found = collective_time(mesh, CollectiveKind.SEND, 1e6, Nodes(1, 2))
    assert found is not None
    assert found.time_ns[0] == pytest.approx(1e6)


def with_packets(tier: str) -> HardwareProfile:
    """A mesh of pairs of 1e9 B/s, 1e8 B/s between nodes, and packets of 2e9 B/s after 100 ns fitted on a tier."""
    found = {"latency_ns": 100.0, "bytes_per_s": 2e9, "floor_ns": 0.0}
    parameters = {name: Parameter(value, "", Grade.FITTED, "packets") for name, value in found.items()}
    held = {
        name: Parameter(0.1, "1", Grade.ASSUMED, "held") for name in ("small_latency_ratio", "small_bandwidth_ratio")
    }
    fit = Fitted("point_to_point", {"op": "send", "tier": tier}, parameters | held)
    links = {"intra_node_pair_bytes_per_s": 1e9, "intra_node_bytes_per_s": 7e9, "inter_node_bytes_per_s": 1e8}
    return replace(profile(**links), fitted=(fit,))


def test_packets_that_were_fitted_make_the_collectives_of_a_mesh() -> None:
    """All-gather of 8,000 bytes among 4: 2,000 bytes a pair at 2e9 B/s and a latency of 100 ns: 1,100 ns."""
    found = collective_time(with_packets("intra_node"), CollectiveKind.ALL_GATHER, 8e3, Nodes(1, 4))
    assert found is not None
    assert found.time_ns[0] == pytest.approx(1100)
    assert (found.grade[0], found.formula) == (Grade.EXTRAPOLATED, "mesh_exchange, packets fitted")


@pytest.mark.parametrize(
    ("tier", "nodes", "formula"),
    [
        ("inter_node", Nodes(1, 4), "mesh_exchange, datasheet"),
        ("intra_node", Nodes(4, 1), "ring_all_gather, datasheet"),
        ("intra_node", Nodes(2, 4), "mesh inside servers and HCCL's choice between them, packets fitted and datasheet"),
    ],
)
def test_packets_of_one_tier_say_nothing_of_the_other(tier: str, nodes: Nodes, formula: str) -> None:
    """A collective is known no better than the weakest link that it uses."""
    found = collective_time(with_packets(tier), CollectiveKind.ALL_GATHER, 8e3, nodes)
    assert found is not None
    assert (found.grade[0], found.formula) == (Grade.DATASHEET, formula)


def test_a_link_that_is_assumed_makes_an_assumed_time() -> None:
    """Bandwidths of a profile may be guesses; the time that they give is one, too."""
    guess = Parameter(1e9, "B/s", Grade.ASSUMED, "test")
    found = collective_time(HardwareProfile("a", "a", (), {"intra_node_bytes_per_s": guess}), REDUCE, 4e3, Nodes(1, 4))
    assert found is not None
    assert (found.grade[0], found.formula) == (Grade.ASSUMED, "ring_all_reduce, assumed")


def test_a_message_one_way_is_known_from_messages_both_ways() -> None:
    """sendrecv of nccl-tests, and packets of Ascend, say what a pipeline's send takes."""
    fit = replace(fitted("point_to_point", "intra_node", 5.0), key={"op": "send", "tier": "intra_node"})
    found = best_fit(profile(fit), CollectiveKind.SEND_RECV, "intra_node")
    assert found is fit


@pytest.mark.parametrize("kind", [CollectiveKind.BROADCAST, CollectiveKind.REDUCE])
def test_a_mesh_broadcasts_and_reduces_in_two_steps(kind: CollectiveKind) -> None:
    """8,000 bytes among 4 over pairs of 1e9 B/s: twice 2,000 bytes."""
    found = collective_time(
        profile(intra_node_pair_bytes_per_s=1e9, intra_node_bytes_per_s=3e9), kind, 8e3, Nodes(1, 4)
    )
    assert found is not None
    assert found.time_ns[0] == pytest.approx(4000)
