"""Trimmed means by hand."""

from __future__ import annotations

import numpy as np

from replay.core.statistics import trimmed_mean


def test_one_of_ten_goes_at_each_end() -> None:
    """Of 0, 1 … 8, 1000 the ends go; the mean of 1 … 8 is 4.5."""
    assert trimmed_mean([1000, *range(9)]) == 4.5


def test_fewer_than_ten_are_all_kept() -> None:
    """A tenth of nine is no whole row."""
    assert trimmed_mean([0] * 8 + [9]) == 1.0


def test_rows_are_trimmed_by_column() -> None:
    """Each op of a template is trimmed by itself."""
    assert trimmed_mean(np.array([[1, 10], [3, 30]])).tolist() == [2.0, 20.0]
