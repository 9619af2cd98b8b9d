"""The link that is assumed where nothing says how fast links are."""

import pytest

from replay.program.assumed_link import of_device
from replay.program.links import Moved
from replay.trace import CollectiveKind


@pytest.mark.parametrize(("device", "gbit_per_s"), [("", 400), ("NVIDIA H100 80GB HBM3", 400), ("Ascend", 200)])
def test_a_ring_at_one_port_a_device(device: str, gbit_per_s: int) -> None:
    """1 GB over 2: two messages of 0.5 GB."""
    moved = Moved(CollectiveKind.ALL_REDUCE, 1e9, (0, 1))
    assert of_device(device).time_ns(moved) == pytest.approx(8e18 / (gbit_per_s * 1e9))


def test_the_note_says_what_is_assumed() -> None:
    assert "50 GB/s a device is assumed" in of_device().note
