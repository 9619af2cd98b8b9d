"""Distinct nodes per token: closed form against random routing and against hand arithmetic."""

from __future__ import annotations

from math import comb, prod

import numpy as np
import pytest

from replay.collectives._link import Link
from replay.collectives.deduplicating import (
    Router,
    distinct_parts,
    exchange_time_ns,
    remote_nodes,
    remote_ranks_inside,
)

DEEPSEEK_V3 = Router(experts=256, topk=8, groups=8, topk_groups=4)


def routed(tokens: int, seed: int) -> np.ndarray:
    """Experts of random tokens: admit 4 of 8 groups by noise, take the 8 best experts by noise among theirs."""
    noise = np.random.default_rng(seed)
    admitted = np.argsort(noise.random((tokens, 8)), axis=1) < 4
    score = np.where(np.repeat(admitted, 32, axis=1), noise.random((tokens, 256)), -1.0)
    return np.argsort(-score, axis=1)[:, :8]


@pytest.mark.parametrize(("ranks", "expected"), [(64, 3.18), (32, 2.20)])
def test_deepseek_v3_remote_nodes_by_random_routing(ranks: int, expected: float) -> None:
    """A token of a random rank counts the nodes of its experts, without its own."""
    experts = routed(40_000, seed=ranks)
    node = experts // (256 // ranks) // 8
    own = np.random.default_rng(1).integers(0, ranks // 8, len(experts))
    copies = np.mean([len(set(nodes.tolist()) - {home}) for nodes, home in zip(node, own, strict=True)])
    assert copies == pytest.approx(expected, abs=0.02)
    assert remote_nodes(DEEPSEEK_V3, ranks, 8) == pytest.approx(expected, abs=0.005)


def test_deepseek_v3_at_64_ranks_by_hand() -> None:
    """Node = group: 4 admitted, each missed with chance C(96, 8) / C(128, 8) = prod (96-i) / (128-i); 7/8 remote."""
    missed = prod((96 - i) / (128 - i) for i in range(8))
    assert remote_nodes(DEEPSEEK_V3, 64, 8) == pytest.approx(4 * (1 - missed) * 7 / 8)


def test_deepseek_v3_at_32_ranks_by_hand() -> None:
    """A node is two groups: none admitted 15/70, one 40/70, both 15/70 of the 70 ways to admit 4 of 8; 3/4 remote."""
    one = 1 - comb(96, 8) / comb(128, 8)
    both = 1 - comb(64, 8) / comb(128, 8)
    assert remote_nodes(DEEPSEEK_V3, 32, 8) == pytest.approx(4 * (40 / 70 * one + 15 / 70 * both) * 3 / 4)


def test_one_node_has_no_remote_node() -> None:
    assert remote_nodes(DEEPSEEK_V3, 8, 8) == 0.0


def test_top_one_goes_to_one_place() -> None:
    assert distinct_parts(Router(64, 1), 8) == pytest.approx(1.0)


def test_without_groups_it_is_the_hypergeometric_chance() -> None:
    """2 of 4 experts on 2 nodes: both on one node in 2 of 6 draws, so 1 · 1/3 + 2 · 2/3 = 5/3 nodes."""
    assert distinct_parts(Router(4, 2), 2) == pytest.approx(5 / 3)


def test_copies_inside_the_node_by_hand() -> None:
    """2 of 4 experts on 4 ranks of one node are 2 ranks; 1 in 4 copies stays on its own rank."""
    assert remote_ranks_inside(Router(4, 2), ranks=4, devices_per_node=8) == pytest.approx(2 * 3 / 4)


def test_the_slower_tier_decides() -> None:
    """1 MB of tokens, 2 copies inside at 10 GB/s (0.2 ms), 1 copy outside at 1 GB/s (1 ms)."""
    assert exchange_time_ns(1e6, (2.0, 1.0), Link(10e9), Link(1e9)) == pytest.approx(1e6)


@pytest.mark.parametrize("router", [(256, 8, 7, 4), (256, 8, 8, 9), (16, 8, 8, 2), (8, 0, 1, 1)])
def test_an_impossible_router_is_an_error(router: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="a router cannot take"):
        Router(*router)
