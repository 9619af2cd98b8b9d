"""Layouts: any odd sizes either hold together or are refused by the numbers that do not divide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.core.errors import LayoutError, RefusedError
from replay.layout import Layout

SIZE = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 23, 24])
JOB = Layout(tp=2, pp=4, dp=4, ep=4, world_size=32, mbs=1, gbs=32, microbatches=8, schedule="1f1b", group_size=4)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("tp", "pp", "cp", "ep", "etp", "vpp", "gbs", "mbs"), SIZE)))
def test_a_change_holds_together_or_is_refused(sizes: dict[str, int]) -> None:
    """R14: the world stays, dp and micro-batches follow; nothing in between."""
    try:
        changed = JOB.change(**sizes)
    except LayoutError as refusal:
        assert any(character.isdigit() for character in str(refusal))
        return
    assert changed.world_size == JOB.world_size == changed.tp * changed.cp * changed.pp * changed.dp
    assert (changed.world_size // changed.pp) % (changed.ep * changed.etp) == 0
    assert changed.microbatches is not None
    assert changed.microbatches * changed.dp * (changed.mbs or 0) == changed.gbs


@given(st.integers(1, 64))
def test_only_dp_and_world_change_the_number_of_devices(dp: int) -> None:
    """tp 2 x pp 4 x dp."""
    assert Layout(tp=2, pp=4, world_size=8).change(dp=dp).world_size == 8 * dp


def test_tp_1_with_ep_is_a_layout() -> None:
    """Expert parallelism without tensor parallelism over the data-parallel ranks."""
    assert Layout(ep=8, dp=8, world_size=8).ep == 8


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"tp": 8, "pp": 8}, r"tp 8 x cp 1 x pp 8 = 64 does not divide the 32 ranks"),
        ({"ep": 3}, r"ep may be one of 1, 2, 4, 8"),
        ({"gbs": 30}, r"30 .*4"),
        ({"dispatcher": "zig"}, r"unknown dispatcher 'zig'; known: alltoall, allgather, hierarchical, deepep"),
        ({"dp": 0}, r"dp must be at least 1, got 0"),
        ({"mbs": 0}, r"mbs must be at least 1, got 0"),
        ({"schedule": "interleaved"}, r"at least two chunks a rank, but vpp is 1"),
        ({"colour": 2}, r"unknown layout key"),
    ],
)
def test_the_message_names_the_numbers(sizes: dict[str, object], says: str) -> None:
    """And the sizes that would fit, where there are such."""
    with pytest.raises(LayoutError, match=says):
        JOB.change(**sizes)


def test_the_global_batch_is_held_where_only_micro_batches_are_known() -> None:
    """4 micro-batches on each of 2 replicas are 2 on each of 4, and 8 on one; 3 replicas cannot share them."""
    layout = Layout(dp=2, world_size=2, microbatches=4)
    assert layout.change(dp=4).microbatches == 2
    assert layout.change(world_size=1).microbatches == 8
    with pytest.raises(LayoutError, match="4 micro-batches on dp 2 do not divide over dp 3"):
        layout.change(dp=3)


def test_a_global_batch_needs_the_micro_batch() -> None:
    """8 sequences are any number of micro-batches until one of these is said to be 2 of them."""
    with pytest.raises(RefusedError, match="--from mbs=N"):
        Layout(microbatches=2).change(gbs=8)
    assert Layout(microbatches=2, mbs=2).change(gbs=8).microbatches == 4
