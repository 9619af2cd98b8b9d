"""Logs of link tests are what nccl-tests would print."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the recorder needs torch")

from traces.record.durations import Durations
from traces.record.link_tests import duration_ns, table


@pytest.mark.parametrize(("test", "factor"), [("all_reduce", 1.5), ("alltoall", 0.75), ("sendrecv", 1.0)])
def test_bus_bandwidth_is_that_of_nccl_tests(test: str, factor: float) -> None:
    """PERFORMANCE.md for 4 ranks: 2 (n - 1) / n, (n - 1) / n, 1; 8,000,000 bytes in 1,000 us are 8 GB/s."""
    (row,) = [line.split() for line in table(test, 4, {8_000_000: 1000.0}).splitlines() if line[:1] == " "]
    assert (row[:2], row[5:8]) == (["8000000", "2000000"], ["1000.00", "8.00", f"{8 * factor:.2f}"])


def test_sizes_are_whole_buffers_of_a_rank() -> None:
    """An all-to-all of 4 ranks sends a quarter of it to each of three others."""
    device = Durations()
    assert duration_ns(device, "alltoall", 4 << 20, 4) == device.all_to_all(1 << 20, 4)
    assert duration_ns(device, "all_reduce", 4 << 20, 4) == device.all_reduce(4 << 20, 4)
    assert duration_ns(device, "sendrecv", 4 << 20, 2) == device.point_to_point(4 << 20)
