"""Message times by size, as a step's own transfers show them."""

import numpy as np
import pytest

from hwprofiles import HardwareProfile, Parameter, load
from replay.core.evidence import Grade
from replay.program.links import Curve, Links, Moved, _small, modelled
from replay.trace import CollectiveKind

MIB = 1 << 20
FOUR = (0, 1, 2, 3)
CURVE = Curve(np.array([8.0 * MIB, 16.0 * MIB]), np.array([210.0, 410.0]), start_up_ns=4.0, latency_ns=6.0)


def links(**tiers: Curve) -> Links:
    """Links that know ``inside`` and ``between`` nodes of 8."""
    return Links({name == "between": curve for name, curve in tiers.items()})


def test_a_ring_sends_two_rounds_of_parts() -> None:
    """64 MiB over 4: 2 x 3 messages of 16 MiB, 410 ns each."""
    assert links(inside=CURVE).time_ns(Moved(CollectiveKind.ALL_REDUCE, 64 * MIB, FOUR)) == (6 * 410.0, Grade.FITTED)


def test_larger_messages_go_at_the_bandwidth_of_the_largest() -> None:
    """32 MiB is twice what was seen."""
    assert links(inside=CURVE).time_ns(Moved(CollectiveKind.SEND, 32 * MIB, (0, 1))) == (820.0, Grade.EXTRAPOLATED)


def test_small_transfers_take_start_up_and_latency() -> None:
    """4 bytes to one rank; a ring of 4 sends 6 messages."""
    assert links(inside=CURVE).time_ns(Moved(CollectiveKind.SEND, 4, (0, 1))) == (10.0, Grade.FITTED)
    assert links(inside=CURVE).time_ns(Moved(CollectiveKind.ALL_REDUCE, 4, FOUR)) == (40.0, Grade.FITTED)


def test_below_the_sizes_seen_two_of_them_tell_the_latency() -> None:
    """10 ns and 25 ns a MiB, so 4 MiB take 110; of one size, in proportion to it."""
    four = Moved(CollectiveKind.SEND, 4 * MIB, (0, 1))
    assert links(inside=CURVE).time_ns(four) == (110.0, Grade.EXTRAPOLATED)
    assert links(inside=Curve(CURVE.nbytes[:1], CURVE.time_ns[:1])).time_ns(four) == (105.0, Grade.EXTRAPOLATED)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([], (0, 0)),
        ([(2, 20.0), (2, 24.0)], (20, 0)),
        ([(2, 20.0), (6, 40.0)], (10, 5)),
        ([(2, 20.0), (6, 16.0)], (16, 0)),
        ([(2, 8.0), (6, 30.0)], (0, 4)),
    ],
)
def test_small_transfers_tell_start_up(times: list[tuple[int, float]], expected: tuple[float, float]) -> None:
    """Two numbers of messages make a line; it neither falls nor begins below 0."""
    assert _small(times) == pytest.approx(expected)


def test_a_rank_alone_sends_nothing() -> None:
    assert links(inside=CURVE).time_ns(Moved(CollectiveKind.ALL_TO_ALL, MIB, (0,))) == (0.0, Grade.FITTED)


def test_another_tier_is_assumed_unless_a_profile_knows_it() -> None:
    """16 MiB over 1 GB/s, one message."""
    across = Moved(CollectiveKind.SEND, 16 * MIB, (0, 8))
    assert links(inside=CURVE).time_ns(across) == (410.0, Grade.ASSUMED)
    slow = Parameter(1e9, "B/s", Grade.DATASHEET, "test")
    profile = HardwareProfile("p", "p", (), {"inter_node_bytes_per_s": slow})
    known = Links({False: CURVE}, profile=profile).time_ns(across)
    assert known == (pytest.approx(16 * MIB), Grade.DATASHEET)


def test_a_send_is_timed_as_pairs_were_calibrated() -> None:
    """1 GB at the 24.88 GB/s fitted between nodes, and microseconds of latency."""
    found = modelled(load("h100-sxm"), Moved(CollectiveKind.SEND, 1e9, (0, 8)), 8)
    assert found is not None
    assert found.formula == "point_to_point fitted on inter_node links"
    assert found.time_ns[0] == pytest.approx(1e9 / 24.88, rel=0.001)


def test_nothing_known_is_nothing() -> None:
    assert Links().time_ns(Moved(CollectiveKind.SEND, MIB, (0, 1))) is None


def test_a_ratio_without_links_is_that_of_bytes_that_leave_a_rank() -> None:
    """(7/8) / (3/4)."""
    before, after = (Moved(CollectiveKind.ALL_TO_ALL, MIB, tuple(range(n))) for n in (4, 8))
    assert Links().ratio(before, after) == (pytest.approx(7 / 6), Grade.ASSUMED)
