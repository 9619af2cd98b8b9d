"""Which cases are summed apart: those that ask for sizes no input answers yet."""

from __future__ import annotations

import pytest

from replay.layout import Layout
from replay.session.validation import unanswered


@pytest.mark.parametrize(
    ("sizes", "named"),
    [({"ep": 4}, ""), ({"tp": 2, "dp": 4}, "tp"), ({"seq": 8192, "mbs": 2, "cp": 2}, "cp, mbs, seq"), ({"tp": 1}, "")],
)
def test_sizes_that_no_input_answers_are_named_where_they_change(sizes: dict[str, int], named: str) -> None:
    """A case may state the whole layout: tp 1 of a source with tp 1 asks for nothing."""
    assert unanswered(sizes, Layout(dp=8, world_size=8)) == named
