"""Tables: CSV and Parquet files as columns, with the line of every row."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers._parquet import read_parquet
from parsers.source import SourceFile
from replay.core.columns import Bool, Float64, Int64
from replay.core.errors import TraceError
from replay.samples import UNKNOWN, Samples, Words

PARQUET = b"PAR1"
_DELIMITERS = ",;\t|"
_SUFFIXES = (".csv", ".tsv")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name. ``line`` is the line in a CSV file, the row (from 1) in a Parquet file."""

    name: str
    columns: tuple[str, ...]
    values: dict[str, Words | npt.NDArray[Any]]
    line: Int64

    def __len__(self) -> int:
        return len(self.line)

    def numbers(self, column: str) -> Float64:
        """A column as floats, ``NaN`` where empty or absent; :class:`TraceError` names the line of what is none."""
        if column not in self.values:
            return np.full(len(self), np.nan)
        values = self.values[column]
        if isinstance(values, Words):
            values = np.array(values.to_list(), dtype=object)
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            return np.array([self._number(column, row, values[row]) for row in range(len(self))], dtype=np.float64)

    def words(self, column: str) -> Words:
        """A column as strings, "" where empty or absent."""
        found = self.values.get(column)
        if found is None:
            return self.constant("")
        return found if isinstance(found, Words) else Words.of(_text(value) for value in found)

    def constant(self, word: str) -> Words:
        """The same word in every row."""
        return Words.constant(word, len(self))

    def _number(self, column: str, row: int, value: object) -> float:
        text = "" if value is None else str(value).strip()
        if text.lower() in ("", "nan", "none", "null", "n/a", "-"):
            return float("nan")
        if text.lower() in ("true", "false"):
            return float(text.lower() == "true")
        try:
            return float(text)
        except ValueError:
            raise TraceError(f"{self.name}:{int(self.line[row])}: {column} is {text!r}, not a number") from None


def is_table(head: bytes, name: str) -> bool:
    """A Parquet file, or text whose first line is a list of several names."""
    if head.startswith(PARQUET):
        return True
    lines = head.decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    if len(lines) < 1 or head[:1] in (b"{", b"[", b"#"):
        return False
    cells = next(csv.reader([lines[0]], delimiter=_delimiter(lines[0])), [])
    named = sum(not _is_number(cell) for cell in cells)
    listed = name.lower().removesuffix(".gz").endswith(_SUFFIXES) or _even(lines)
    return len(cells) >= 3 and named >= len(cells) - 1 and listed


def read_table(file: SourceFile, head: bytes) -> Table:
    """The table of a file; :class:`TraceError` where it is damaged, or no library can read it."""
    return _parquet(file) if head.startswith(PARQUET) else _csv(file)


def _csv(file: SourceFile) -> Table:
    text = file.read().decode("utf-8", "replace").lstrip("\ufeff")
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=_delimiter(first))
    columns = tuple(name.strip() or f"column {i}" for i, name in enumerate(next(reader)))
    rows, lines, ragged = [], [], []
    for row in reader:
        if not row or row == [""]:
            continue
        if len(row) != len(columns):
            ragged.append(reader.line_num)
            continue
        rows.append(row)
        lines.append(reader.line_num)
    if not rows:
        cut = f" (line {ragged[0]} has another number of columns than the header)" if ragged else ""
        raise TraceError(f"{file.name}:1: a table without rows{cut}")
    if len(ragged) > 1 or (ragged and ragged[0] < lines[-1]):  # a last line that is cut short is only left out
        raise TraceError(f"{file.name}:{ragged[0]}: has another number of columns than the header; repair the table")
    values = np.array(rows, dtype=object)
    return Table(file.name, columns, {c: values[:, i] for i, c in enumerate(columns)}, np.array(lines, dtype=np.int64))


def _parquet(file: SourceFile) -> Table:
    found = read_parquet(file)
    import pyarrow as pa  # noqa: PLC0415 - an optional library

    columns = tuple(found.column_names)
    try:
        values = {name: _parquet_column(found.column(name).combine_chunks()) for name in columns}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{file.name}: has a column that is neither numbers nor words ({error})") from None
    return Table(file.name, columns, values, np.arange(1, found.num_rows + 1, dtype=np.int64))


def _parquet_column(column: Any) -> Words | npt.NDArray[Any]:
    """Numbers as floats, everything else as words."""
    import pyarrow as pa  # noqa: PLC0415 - an optional library

    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return np.asarray(column.cast("float64", safe=False).to_numpy(zero_copy_only=False))
    coded = column.cast("string").fill_null("").dictionary_encode()
    return Words(coded.indices.to_numpy().astype(np.int32), tuple(coded.dictionary.to_pylist()))


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _even(lines: list[str]) -> bool:
    """The second line has as many cells as the first."""
    delimiter = _delimiter(lines[0])
    return len(lines) > 1 and lines[1].count(delimiter) == lines[0].count(delimiter) > 2


@dataclass(frozen=True, slots=True)
class Measured:
    """Whole columns of measurements. ``words`` may hold dtype, device, software and variant; ``keep`` marks rows."""

    op: Words
    time_ns: Float64
    sizes: dict[str, Float64]
    words: dict[str, Words]
    spread_ns: Float64 | None = None
    keep: Bool | None = None


_COUNTS = ("m", "n", "k", "batch", "nbytes", "ranks", "tokens", "hidden", "inter", "topk", "experts", "heads", "seq")
"""Sizes that nothing has less than one of."""


def to_samples(table: Table, measured: Measured) -> Samples:
    """Samples of whole columns, without the rows that have no time or no size above zero (counted in the notes)."""
    n = len(table)
    kept = np.ones(n, dtype=bool) if measured.keep is None else measured.keep
    timed = np.isfinite(measured.time_ns) & (measured.time_ns > 0)
    counts = [np.asarray(measured.sizes[name]) for name in _COUNTS if name in measured.sizes]
    sized = np.logical_and.reduce([np.ones(n, dtype=bool), *(np.isnan(count) | (count > 0) for count in counts)])
    notes = [
        f"{table.name}:{int(table.line[bad[0]])}: {len(bad)} rows left out, without a {what} above zero"
        for what, mask in (("time", kept & ~timed), ("size", kept & timed & ~sized))
        if len(bad := np.flatnonzero(mask))
    ]
    empty = table.constant("")
    whole = Samples(
        time_ns=measured.time_ns,
        spread_ns=np.full(n, np.nan) if measured.spread_ns is None else measured.spread_ns,
        repeats=np.full(n, UNKNOWN, dtype=np.int64),
        line=table.line.copy(),
        op=measured.op,
        **{name: measured.words.get(name, empty) for name in ("dtype", "device", "software", "variant")},
        source=Words.constant(table.name, n),
        sizes={name: np.asarray(column, dtype=np.float64).copy() for name, column in measured.sizes.items()},
        notes=tuple(notes),
    )
    return whole.take(kept & timed & sized)


def _text(value: object) -> str:
    """A cell as a word: "" where it is empty (Parquet's missing strings are None or NaN)."""
    text = "" if value is None else str(value).strip()
    return "" if text == "nan" else text
