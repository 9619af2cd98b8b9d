"""Contract of every algorithm, and hand arithmetic for each."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from replay.collectives import (
    chain,
    direct_all_to_all,
    halving_doubling,
    hierarchical,
    mesh_all_reduce,
    mesh_exchange,
    pairwise_all_to_all,
    point_to_point,
    recursive_doubling,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    switch_all_reduce,
    tree_all_reduce,
)
from replay.collectives._link import Link
from replay.core.plugins import members
from replay.trace import CollectiveKind

MEMBERS = list(members("replay.collectives").values())
LINK = Link(bytes_per_s=1e9, latency_ns=100.0)  # 1 byte a nanosecond


def name(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


@pytest.mark.parametrize("algorithm", MEMBERS, ids=name)
def test_more_bytes_never_take_less_time(algorithm: ModuleType) -> None:
    times = algorithm.time_ns(np.array([1e3, 1e6, 1e9]), 8, LINK)
    assert np.all(np.diff(times) > 0)
    assert all(isinstance(kind, CollectiveKind) for kind in algorithm.KINDS)


@pytest.mark.parametrize("algorithm", MEMBERS, ids=name)
def test_a_lone_rank_sends_nothing(algorithm: ModuleType) -> None:
    assert algorithm.time_ns(1e6, 1, LINK) == 0.0


@pytest.mark.parametrize("algorithm", MEMBERS, ids=name)
def test_twice_the_bandwidth_halves_the_part_above_latency(algorithm: ModuleType) -> None:
    slow, fast = Link(1e9), Link(2e9)
    assert algorithm.time_ns(1e6, 8, slow) == pytest.approx(2 * algorithm.time_ns(1e6, 8, fast))


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (ring_all_gather, 3 * 100 + 3000),  # 3 steps of 1000 bytes
        (ring_reduce_scatter, 3 * 100 + 3000),
        (ring_all_reduce, 6 * 100 + 6000),
        (direct_all_to_all, 100 + 3000),  # 3 peers at once, 1000 bytes each
        (pairwise_all_to_all, 3 * 100 + 3000),
        (hierarchical, 100 + 3000),  # one node
        (tree_all_reduce, 4 * 100 + 6000),  # up and down two levels
        (halving_doubling, 4 * 100 + 6000),  # 2000 + 1000 + 1000 + 2000 bytes
        (recursive_doubling, 2 * 100 + 3000),  # 1000 + 2000 bytes
        (switch_all_reduce, 2 * 100 + 5000),  # 4000 read, 1000 written
        (mesh_all_reduce, 2 * 100 + 2000),  # 1000 bytes over each of 3 links, twice
        (mesh_exchange, 100 + 1000),
        (chain, 3 * 100 + 4000),
        (point_to_point, 100 + 4000),
    ],
    ids=lambda value: name(value) if isinstance(value, ModuleType) else str(value),
)
def test_four_ranks_and_4000_bytes(algorithm: ModuleType, expected: float) -> None:
    assert algorithm.time_ns(4000, 4, LINK) == pytest.approx(expected)


def test_bus_bandwidth_is_what_nccl_tests_prints() -> None:
    """nccl-tests doc/PERFORMANCE.md: all-reduce busbw = S/t · 2(n-1)/n; without latency it is the link's bandwidth."""
    seconds = float(ring_all_reduce.time_ns(1e9, 8, Link(100e9))) / 1e9
    assert 1e9 / seconds * 2 * 7 / 8 == pytest.approx(100e9)


def test_the_slower_tier_decides() -> None:
    """16 ranks on 2 nodes, 16,000 bytes: 7 blocks inside (7 us at 1 GB/s), 8 outside (80 us at 0.1 GB/s)."""
    inside, outside = hierarchical.tier_nbytes(16_000, 16, 8)
    assert (inside, outside) == (7_000, 8_000)
    both = hierarchical.time_ns(16_000, 16, Link(1e9), inter=Link(1e8), devices_per_node=8)
    assert both == pytest.approx(80_000)
