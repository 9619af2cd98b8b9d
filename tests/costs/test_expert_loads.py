"""Rows of experts of the busiest rank."""

from __future__ import annotations

import pytest

from replay.costs.expert_loads import Routing, expert_rows


def test_balanced_rows_are_as_even_as_whole_rows_allow() -> None:
    """10 tokens to 2 of 8 experts on 2 ranks: 2.5 rows a expert, so 2 of the 4 local experts get 3 and 2 get 2."""
    rows, copies = expert_rows(Routing(tokens=10, topk=2, experts=8, ranks=2, skew=0))
    assert (rows[:2].tolist(), copies[:2].tolist()) == ([3, 2], [2, 2])


def test_few_balanced_tokens_use_few_experts() -> None:
    """1 token to 8 of 256 experts on 8 ranks: one row on one of the 32 local experts."""
    rows, copies = expert_rows(Routing(tokens=1, topk=8, experts=256, ranks=8, skew=0))
    assert (copies * (rows > 0)).sum() == 1
    assert copies.sum() == 32


def test_skewed_rows_of_one_rank_sum_to_all_rows() -> None:
    rows, copies = expert_rows(Routing(tokens=4096, topk=8, experts=128, ranks=1, skew=1.2))
    assert (rows * copies).sum() == pytest.approx(4096 * 8)


def test_the_busiest_of_skewed_ranks_has_more_than_its_share() -> None:
    rows, copies = expert_rows(Routing(tokens=4096, topk=8, experts=128, ranks=8, skew=1.2))
    assert (rows * copies).sum() > 4096 * 8 / 8


def test_more_ranks_than_experts_leave_one_expert_a_rank() -> None:
    rows, copies = expert_rows(Routing(tokens=64, topk=2, experts=8, ranks=16, skew=1.2))
    assert copies.sum() == 1
    assert (rows * copies).sum() >= 64 * 2 / 8


def test_no_tokens_no_rows() -> None:
    rows, copies = expert_rows(Routing(tokens=0, topk=2, experts=8, ranks=2, skew=1.2))
    assert (rows * copies).sum() == 0
