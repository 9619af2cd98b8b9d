"""Shares of experts, and how many rows they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from traces.record.loads import BALANCED, Load, read


def test_balanced_rows_are_equal() -> None:
    """16 rows over 4 experts."""
    assert BALANCED.rows(0, 16, 4) == (4, 4, 4, 4)


def test_rows_go_to_the_largest_remainders() -> None:
    """10 rows by 1/2, 1/3, 1/6: 5, 3.33, 1.67; the last one gets what is left."""
    assert Load("x", ((1 / 2, 1 / 3, 1 / 6),)).rows(0, 10, 3) == (5, 3, 2)


def test_zipf_shares_fall_with_the_rank_in_every_layer() -> None:
    """Exponent 1, two experts: 2/3 and 1/3, whichever is first."""
    load = read("zipf:1", 4, 2)
    assert all(sorted(shares) == pytest.approx([1 / 3, 2 / 3]) for shares in load.shares)


def test_counts_come_from_a_file(tmp_path: Path) -> None:
    """One row a layer."""
    (tmp_path / "counts.csv").write_text("1,3\n2,2\n")
    load = read(str(tmp_path / "counts.csv"), 2, 2)
    assert (load.name, load.shares) == ("counts.csv", ((0.25, 0.75), (0.5, 0.5)))


def test_a_row_of_another_length_is_an_error(tmp_path: Path) -> None:
    """The message names the number of experts."""
    (tmp_path / "counts.csv").write_text("1,3\n")
    with pytest.raises(ValueError, match="4 counts"):
        read(str(tmp_path / "counts.csv"), 1, 4)
