"""Which layout the order of passes is that of: stated sizes are checked, assumed ones give way."""

from __future__ import annotations

import pytest

from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.program.types import Role
from replay.trace import CollectiveKind, Health
from tests.program.structure.launched import Found, Work, find, kernels, transfer

SEND, RECV = transfer(CollectiveKind.SEND), transfer(CollectiveKind.RECV)
UPDATE = kernels("multi_tensor_adam")
F, B = kernels("norm qkv_gemm flash_fwd fc_gemm"), kernels("fc_gemm_dgrad flash_bwd qkv_gemm_dgrad norm_bwd")
FREE = ("pp", "vpp")


def two_interleaved_stages() -> list[list[Work]]:
    """Two stages of two chunks, two micro-batches (Megatron): the last rank warms up with (v - 1) p = 2 forwards.

    Rank 0 holds chunks 0 and 2 of the model: all but the first forward receive, all send; rank 1 the other way round.
    """
    rank_0 = (F + SEND) * 2 + (RECV + F + SEND) * 2 + (RECV + B + SEND) * 2 + (RECV + B) * 2
    rank_1 = (RECV + F + SEND) * 2 + (RECV + F + B + SEND) * 2 + (RECV + B + SEND) * 2
    return [rank_0 + UPDATE, rank_1 + UPDATE]


def passes(found: Found, rank: int) -> list[tuple[int, int]]:
    """(micro-batch, chunk) of the first kernel of every pass."""
    rows = zip(*(found.column(field, rank) for field in ("microbatch", "chunk", "role")), strict=True)
    compute = [(microbatch, chunk) for microbatch, chunk, role in rows if microbatch >= 0 and role != Role.P2P]
    return compute[:: len(F)]


RANK_1 = [(0, 0), (1, 0), (0, 1), (0, 1), (1, 1), (1, 1), (0, 0), (1, 0)]
"""Forwards and backwards in the order of execution: F F, F B, F B, B B."""


def test_assumed_chunks_give_way_to_those_found() -> None:
    found = find(two_interleaved_stages(), Layout(pp=2, world_size=2), assumed=["vpp"])
    layout = found.evidence.layout
    assert (layout.vpp, layout.microbatches, layout.schedule, layout.group_size) == (2, 2, "interleaved", 2)
    assert passes(found, 1) == RANK_1


def test_stated_chunks_are_named_with_those_found() -> None:
    found = find(two_interleaved_stages(), Layout(pp=2, world_size=2))
    assert found.evidence.layout.vpp == 1
    assert set(found.column("microbatch")) == {-1}
    assert "2 chunks a rank" in " ".join(found.sentences)
    assert "not in that of 2 stages and 1 chunks a rank: give --from vpp=2" in " ".join(found.sentences)


def test_stated_micro_batches_leave_only_the_chunks_that_fit_them() -> None:
    found = find(two_interleaved_stages(), Layout(pp=2, world_size=2, microbatches=2), assumed=["vpp"])
    assert found.evidence.layout.vpp == 2
    with pytest.raises(LayoutError, match="3 micro-batches are stated, but rank 0 runs 4 forward"):
        find(two_interleaved_stages(), Layout(pp=2, world_size=2, microbatches=3), assumed=["vpp"])


def test_transfers_tell_chunks_where_the_order_does_not() -> None:
    """Rank 0 of two alone: four forwards, then four backwards are GPipe too, which sends four times, not six."""
    found = find(two_interleaved_stages()[:1], Layout(pp=2, world_size=2), assumed=["vpp"])
    assert found.evidence.layout.vpp == 2


def test_the_schedule_is_found_with_one_chunk() -> None:
    rank_0, rank_1 = (F + SEND) * 3 + (RECV + B) * 3, (RECV + F) * 3 + (B + SEND) * 3
    found = find([rank_0 + UPDATE, rank_1 + UPDATE], Layout(pp=2, world_size=2), assumed=["vpp"])
    assert (found.evidence.layout.vpp, found.evidence.layout.schedule) == (1, "gpipe")


def test_a_stated_schedule_stays_and_is_contradicted() -> None:
    rank_0, rank_1 = (F + SEND) * 3 + (RECV + B) * 3, (RECV + F) * 3 + (B + SEND) * 3
    found = find([rank_0 + UPDATE, rank_1 + UPDATE], Layout(pp=2, world_size=2, schedule="1f1b"))
    assert found.evidence.layout.schedule == "1f1b"
    assert "in the order of gpipe with 3 micro-batches, not in that of the stated schedule 1f1b" in " ".join(
        found.sentences
    )


def test_assumed_stages_give_way_to_those_found() -> None:
    """1F1B over two stages of a named group, where the layout says one."""
    rank_0, rank_1 = (F + SEND) * 2 + RECV + B + F + SEND + (RECV + B) * 2, (RECV + F + B + SEND) * 3
    found = find([rank_0 + UPDATE, rank_1 + UPDATE], Layout(dp=2, world_size=2), assumed=FREE)
    layout = found.evidence.layout
    assert (layout.pp, layout.dp, layout.vpp, layout.microbatches, layout.schedule) == (2, 1, 1, 3, "1f1b")


def test_a_file_that_ends_in_the_middle_leaves_micro_batches_in_order() -> None:
    """Rank 1 of 1F1B over three micro-batches, recorded up to the second: that contradicts no count."""
    cut = Health(cut_short=("rank1.json",))
    rank_0, rank_1 = (F + SEND) * 2 + RECV + B + F + SEND + (RECV + B) * 2, (RECV + F + B + SEND) * 2
    found = find([rank_0 + UPDATE, rank_1], Layout(pp=2, world_size=2, microbatches=3), health=cut)
    assert passes(found, 1) == [(0, 0), (0, 0), (1, 0), (1, 0)]
    assert "rank1.json ends in the middle" in " ".join(found.sentences)
