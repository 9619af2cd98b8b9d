"""Struct-of-arrays plumbing: interned strings, ragged columns, frozen arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]


class Interner:
    """Gives every distinct string a small integer code, in order of first appearance."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._codes: dict[str, int] = {}
        for name in names:
            self.code(name)

    def code(self, name: str) -> int:
        """Code of ``name``, adding it when new."""
        return self._codes.setdefault(name, len(self._codes))

    @property
    def names(self) -> tuple[str, ...]:
        """All strings; index = code."""
        return tuple(self._codes)


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of different length: row ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Int64
    offsets: Int64

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Pack a list of rows."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        values = np.fromiter((v for row in rows for v in row), dtype=np.int64, count=int(lengths.sum()))
        return cls(values, offsets_from_lengths(lengths))

    def row(self, i: int) -> Int64:
        """Row ``i`` (a view)."""
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def groups_of(number: npt.NDArray[np.integer[Any]]) -> list[Int64]:
    """Rows of every number of 0 or more, by number; one sort, whatever there is of them."""
    rows = np.flatnonzero(number >= 0)
    rows = rows[np.argsort(number[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff(number[rows])) + 1) if len(rows) else []


def offsets_from_lengths(lengths: npt.NDArray[np.integer[Any]]) -> Int64:
    """Offsets (n + 1) of rows with the given lengths (n)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def freeze(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array, read-only from now on."""
    array.setflags(write=False)
    return array


def check_equal_length(owner: str, **columns: npt.NDArray[Any]) -> int:
    """Common length of the columns; ``ValueError`` names the odd one."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{owner} needs columns of one length, got {lengths}")
    return next(iter(lengths.values()), 0)
