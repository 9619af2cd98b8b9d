"""Experts of a layout in numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.core.errors import RefusedError
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.expert_side import (
    ExpertSide,
    check_fits,
    combine_nbytes,
    dispatch_nbytes,
    experts_of,
    ranks_per_node,
    tokens_per_rank,
)
from tests.program.events import HOST, span, trace_of

MODEL = ModelSpec(hidden=7168, moe_ffn=2048, experts=256, topk=8, router_groups=8, router_topk_groups=4)
TRACE = trace_of([span("forward", HOST, 0, 1)])


def test_rows_per_expert() -> None:
    """4096 tokens · 8 · 64 / 256 = 8192 rows for each of 4 experts."""
    side = ExpertSide(experts_of(MODEL), ep=64, ranks_per_node=8, tokens=4096)
    assert (side.local_experts, side.rows_per_expert) == (4, 8192)


def test_a_load_adds_rows() -> None:
    side = ExpertSide(experts_of(MODEL), ep=64, ranks_per_node=8, tokens=4096, load=1.5)
    assert side.rows_per_expert == 1.5 * 8192


def test_token_bytes() -> None:
    """FP8: 7168 + 7168/128 scales of 4 bytes; BF16: 2 · 7168."""
    experts = experts_of(MODEL)
    assert (dispatch_nbytes(experts, fp8=True), combine_nbytes(experts)) == (7392, 14336)
    assert dispatch_nbytes(experts, fp8=False) == 14336
    assert combine_nbytes(experts_of(replace(MODEL, hidden=None))) is None


def test_tokens_are_split_over_context_and_sequence_parallel_ranks() -> None:
    layout = Layout(tp=2, cp=2, world_size=4, seq=4096, mbs=2)
    assert tokens_per_rank(TRACE, layout, MODEL)[0] == 2048


def test_what_is_given_is_no_assumption() -> None:
    assert tokens_per_rank(TRACE, Layout(seq=4096, mbs=1), MODEL) == (4096, ())


def test_tokens_from_the_size_in_a_trace_name() -> None:
    named = replace(TRACE, metadata={"trace_name": "ep64 hidden7168 seqlen4096"})
    tokens, assumed = tokens_per_rank(named, Layout(), MODEL)
    assert tokens == 4096
    assert "seqlen4096" in assumed[0]


def test_unknown_tokens_are_asked_for() -> None:
    tokens, assumed = tokens_per_rank(TRACE, Layout(), MODEL)
    assert tokens is None
    assert "give --from seq=" in assumed[0]


def test_ranks_of_a_group_on_a_node() -> None:
    """Consecutive expert ranks fill the node; with etp 2 every other rank is of the group."""
    assert ranks_per_node(Layout(ep=16, dp=16, world_size=16), 8) == 8
    assert ranks_per_node(Layout(ep=4, dp=16, world_size=16), 8) == 4
    assert ranks_per_node(Layout(tp=2, etp=2, ep=8, dp=8, world_size=16), 8) == 4


def test_sizes_that_fit_divide_ranks_and_experts() -> None:
    with pytest.raises(RefusedError, match=r"24 experts do not divide by ep 16; ep may be one of 1, 2, 4, 8$"):
        check_fits(experts_of(ModelSpec(experts=24, topk=2)), Layout(ep=16, dp=16, world_size=16))


def test_an_impossible_router_points_at_the_model() -> None:
    with pytest.raises(RefusedError, match="check --model"):
        experts_of(replace(MODEL, router_groups=7))
