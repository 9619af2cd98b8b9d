"""Step times as ``run.json`` states them."""

from __future__ import annotations

from traces.record.manifest import median_index, spans_ms, summary


def test_a_step_spans_all_ranks() -> None:
    """From the first start to the last end, ns to ms: rank 0 starts first, rank 1 ends last."""
    assert spans_ms([[(0, 3_000_000), (5_000_000, 9_000_000)], [(1_000_000, 4_000_000), (5_500_000, 8_000_000)]]) == [
        4.0,
        4.0,
    ]


def test_the_median_step_is_one_that_ran() -> None:
    """Of an even number the lower one."""
    assert median_index([5.0, 1.0, 3.0]) == 2
    assert median_index([4.0, 1.0, 3.0, 2.0]) == 3


def test_spread_is_the_range_in_percent_of_the_median() -> None:
    """98, 100 and 103: 5 of 100."""
    assert summary([100.0, 103.0, 98.0]) == {"median": 100.0, "spread_pct": 5.0, "values": [100.0, 103.0, 98.0]}
