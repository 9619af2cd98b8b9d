"""Numbering of rows, and occurrences among equal ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.program.template_ids import occurrence, row_ids

ROWS = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**60)), min_size=1, max_size=30)


@given(ROWS)
def test_ids_are_equal_where_rows_are(rows: list[tuple[int, int]]) -> None:
    first, second = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    ids = row_ids(first, second).tolist()
    assert len(set(ids)) == len(set(rows))
    assert all((ids[i] == ids[0]) == (row == rows[0]) for i, row in enumerate(rows))


@given(st.lists(st.integers(0, 4), max_size=30))
def test_occurrence_counts_earlier_equals(ids: list[int]) -> None:
    assert occurrence(np.array(ids, np.int64)).tolist() == [ids[:i].count(value) for i, value in enumerate(ids)]
