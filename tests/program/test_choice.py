"""Which measured block stands for a target's."""

import pytest

from replay.program.choice import corresponding, position_class


@pytest.mark.parametrize(
    ("index", "target", "source", "expected"),
    [
        (1, 4, 4, 1),  # same layout: itself
        (0, 4, 2, 0),  # first is first
        (3, 4, 2, 1),  # last is last
        (1, 4, 2, 1),  # a middle place receives its input, as the last of two does
        (1, 8, 4, 1),  # middle places spread over the middle ones
        (6, 8, 4, 2),
        (0, 1, 4, 0),
        (2, 3, 1, 0),  # a single stage stands for all
    ],
)
def test_corresponding_places(index: int, target: int, source: int, expected: int) -> None:
    """First and last keep their meaning; the middle is spread."""
    assert corresponding(index, target, source) == expected


def test_position_classes() -> None:
    """First, steady, last; a single micro-batch is first."""
    assert [position_class(i, 4) for i in range(4)] == [0, 1, 1, 2]
    assert position_class(0, 1) == 0
