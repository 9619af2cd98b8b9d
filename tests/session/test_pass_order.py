"""Schedules as words, as drawn in the papers."""

from __future__ import annotations

from replay.layout import Layout
from replay.session.pass_order import pass_order


def test_1f1b_of_two_stages_and_three_micro_batches() -> None:
    """PipeDream-Flush: the first stage is one forward ahead."""
    layout = Layout(pp=2, world_size=2, microbatches=3, schedule="1f1b")
    assert pass_order(layout) == {"0": "F0 F1 B0 F2 B1 B2", "1": "F0 B0 F1 B1 F2 B2"}


def test_chunks_are_named_where_there_are_several() -> None:
    """Interleaved, two chunks a rank: micro-batches in groups of pp."""
    layout = Layout(pp=2, vpp=2, world_size=2, microbatches=2, schedule="interleaved")
    assert pass_order(layout)["1"].startswith("F0.0 F1.0 F0.1 B0.1")


def test_without_a_pipeline_there_is_no_order() -> None:
    """Nor where the number of micro-batches is not known."""
    assert pass_order(Layout()) == {}
    assert pass_order(Layout(pp=2, world_size=2, schedule="1f1b")) == {}
