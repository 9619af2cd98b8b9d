"""The emulated device's table: what is non-linear about it, and that more work never takes less time."""

from __future__ import annotations

from pathlib import Path

import pytest

from traces.record.durations import Durations, step

TABLE = """
[gemm]
tile_rows = 100
launch_us = 1.0
flop_per_s = [[0, 1e9], [1000, 2e9]]
[grouped_gemm]
tile_rows = 100
per_expert_us = 5.0
launch_us = 1.0
flop_per_s = [[0, 1e9]]
[message]
latency_us = 10.0
bytes_per_s = [[0, 1e6], [1000, 2e6]]
[ring]
latency_us = 10.0
bytes_per_s = [[0, 1e6]]
"""


@pytest.fixture
def small(tmp_path: Path) -> Durations:
    """Round numbers to calculate with by hand."""
    path = tmp_path / "table.toml"
    path.write_text(TABLE)
    return Durations(path)


def test_steps_hold_up_to_the_next() -> None:
    """A row is valid from its first number on."""
    assert [step([[0, 1.0], [10, 2.0]], at) for at in (0, 9, 10, 99)] == [1.0, 1.0, 2.0, 2.0]


def test_gemm_rows_come_in_tiles(small: Durations) -> None:
    """101 rows cost 200: 200 x 2 x 10 x 10 FLOP at 1e9 FLOP/s = 40 us, and 1 us to launch."""
    assert small.gemm(101, 10, 10) == small.gemm(200, 10, 10) == 41_000


def test_fewer_experts_with_more_rows_each_cost_less(small: Durations) -> None:
    """2 x 150 rows: 400 tiled rows, 80 us + 2 x 5 + 1; 1 x 300 rows: 60 us + 5 + 1."""
    assert small.grouped_gemm([150, 150], 10, 10) == 91_000
    assert small.grouped_gemm([300], 10, 10) == 66_000


def test_experts_without_rows_cost_nothing(small: Durations) -> None:
    """Only the launch is left."""
    assert small.grouped_gemm([0, 0], 10, 10) == 1_000


def test_messages_have_latency_and_bandwidth_steps(small: Durations) -> None:
    """500 bytes at 1 MB/s and 10 us; 1000 bytes at 2 MB/s take no longer; three peers one after the other."""
    assert small.point_to_point(500) == small.point_to_point(1000) == 510_000
    assert small.all_to_all(500, 4) == 3 * 510_000


def test_a_slow_link_stretches_bytes_not_latency(small: Durations) -> None:
    """500 bytes at 1 MB/s: 500 us become 1000 us, the 10 us of latency stay."""
    assert small.point_to_point(500, slowness=2.0) == 1_010_000


def test_ring_all_gather_takes_half_an_all_reduce(small: Durations) -> None:
    """4 ranks: 3/4 of 1000 bytes at 1 MB/s, and 3 steps of 10 us."""
    assert small.all_gather(1000, 4) == 780_000


def test_ring_all_reduce(small: Durations) -> None:
    """4 ranks: 2 x 3/4 of 1000 bytes at 1 MB/s, and 6 steps of 10 us."""
    assert small.all_reduce(1000, 4) == 1_560_000


def test_committed_table_grows_with_the_work() -> None:
    """Twice the rows or the bytes never take less time."""
    table = Durations()
    rows = [2**i for i in range(4, 16)]
    sizes = [2**i for i in range(10, 31)]
    for series in (
        [table.gemm(r, 4096, 4096) for r in rows],
        [table.grouped_gemm([r] * 4, 4096, 4096) for r in rows],
        [table.attention(r, 4096, 4096, backward=True) for r in rows],
        [table.memory(n) for n in sizes],
        [table.all_to_all(n, 8) for n in sizes],
        [table.all_reduce(n, 8) for n in sizes],
    ):
        assert series == sorted(series)
