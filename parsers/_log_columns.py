"""Columns of numbers that grow row by row: eight bytes a number, however long the log."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np

from replay.core.columns import Float64

MOST_COLUMNS = 64  # a line of thousands of made-up segments must not cost thousands of columns in every row
NAN = float("nan")


class Columns:
    """Rows of named numbers; NaN where a row does not have one, also for columns that appear late."""

    def __init__(self) -> None:
        self._columns: dict[str, array[float]] = {}
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, values: Mapping[str, float]) -> None:
        """Add a row; names beyond the sixty-fourth are left out."""
        for name in values:
            if name not in self._columns and len(self._columns) < MOST_COLUMNS:
                self._columns[name] = array("d", (NAN,)) * self._rows
        for name, column in self._columns.items():
            column.append(values.get(name, NAN))
        self._rows += 1

    def pop(self) -> None:
        """Take the last row back."""
        for column in self._columns.values():
            column.pop()
        self._rows -= 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order of first appearance."""
        return tuple(self._columns)

    def column(self, name: str) -> Float64:
        """All rows of one name; NaN throughout where nothing had it."""
        column = self._columns.get(name)
        return np.full(self._rows, np.nan) if column is None else np.array(column, np.float64)
