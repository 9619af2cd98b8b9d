"""Columns: rows by their number."""

import numpy as np

from replay.core.columns import groups_of


def test_rows_of_every_number() -> None:
    """In the order of rows within a number; what is below 0 belongs to none."""
    assert [rows.tolist() for rows in groups_of(np.array([2, -1, 0, 2, 0, -2]))] == [[2, 4], [0, 3]]
    assert groups_of(np.array([-1])) == []
