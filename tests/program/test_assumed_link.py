"""The link that is assumed where nothing says how fast links are."""

import pytest

from replay.program import assumed_link
from replay.program.links import Moved
from replay.trace import CollectiveKind


def test_a_ring_at_one_port_of_400_gigabits_a_device() -> None:
    """1 GB over 2: two messages of 0.5 GB at 50 GB/s."""
    assert assumed_link.time_ns(Moved(CollectiveKind.ALL_REDUCE, 1e9, (0, 1))) == pytest.approx(20e6)


def test_the_note_says_what_is_assumed() -> None:
    assert "50 GB/s a device is assumed" in assumed_link.note()
