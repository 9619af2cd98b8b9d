"""Mapping: what the columns of a table mean, from a small TOML file, for tables of no built-in kind.

    op = "gemm"                      # or op_column = "name of the column that says it"
    time = {column = "latency_ms", unit = "ms"}
    dtype = "bf16"                   # or dtype_column
    [sizes]
    m = "M"                          # size = column
    n = "N"
    k = "K"
    nbytes = {column = "elements", times = 2}
    ranks = 8                        # or a number that holds for all rows

See docs/reference/samples.md.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parsers.samples._collective_words import op_of
from parsers.samples._operands import operand_sizes
from parsers.samples._table import Measured, Table, to_samples
from replay.core.columns import Float64
from replay.core.dtypes import canonical
from replay.core.errors import TraceError
from replay.core.units import NS_PER
from replay.samples import Samples

_WORDS = ("op", "dtype", "device", "software", "variant")
_MATRICES = {"gemm", "grouped_gemm", "moe"}
_KEYS = {"time", "spread", "sizes", *_WORDS, *(f"{word}_column" for word in _WORDS)}


@dataclass(frozen=True, slots=True)
class Scaled:
    """A column times a factor, or a constant where ``column`` is empty."""

    column: str
    factor: float = 1.0

    def values(self, table: Table) -> Float64:
        """The column of a table in our unit."""
        return table.numbers(self.column) * self.factor if self.column else np.full(len(table), self.factor)


@dataclass(frozen=True, slots=True)
class Mapping:
    """``words`` and ``word_columns`` give op, dtype, device, software and variant: constants, or columns."""

    where: str
    time: Scaled
    sizes: dict[str, Scaled]
    spread: Scaled | None = None
    words: dict[str, str] = field(default_factory=dict)
    word_columns: dict[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> set[str]:
        """Columns that a table must have."""
        scaled = [self.time, *self.sizes.values(), *([self.spread] if self.spread else [])]
        return {item.column for item in scaled if item.column} | set(self.word_columns.values())

    def fits(self, table: Table) -> bool:
        """True where the table has all columns of the mapping."""
        return self.columns <= set(table.columns)


def load(path: Path) -> Mapping:
    """The mapping of a TOML file; :class:`TraceError` names the field that is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TraceError(f"{path.name}: is not a mapping in TOML ({error})") from None
    if unknown := set(document) - _KEYS:
        raise TraceError(f"{path.name}: unknown field `{min(unknown)}`; known: {', '.join(sorted(_KEYS))}")
    if "time" not in document or not ("op" in document or "op_column" in document):
        raise TraceError(f"{path.name}: needs `time` and `op` (or `op_column`)")
    sizes = document.get("sizes", {})
    if not isinstance(sizes, dict):
        raise TraceError(f"{path.name}: `sizes` must be a table of size = column")
    spread = document.get("spread")
    return Mapping(
        where=path.name,
        time=_scaled(document["time"], f"{path.name}: time", needs_unit=True),
        spread=None if spread is None else _scaled(spread, f"{path.name}: spread", needs_unit=True),
        sizes={name: _scaled(value, f"{path.name}: sizes.{name}") for name, value in sizes.items()},
        words={word: str(document[word]) for word in _WORDS if word in document},
        word_columns={word: str(document[f"{word}_column"]) for word in _WORDS if f"{word}_column" in document},
    )


def mapped(table: Table, mapping: Mapping) -> Samples:
    """The samples of a table by its mapping; matrices have elements of their type's bytes unless it says others."""
    words = {word: table.constant(value) for word, value in mapping.words.items()}
    words |= {word: table.words(column) for word, column in mapping.word_columns.items()}
    op = words.pop("op").map(op_of)
    words["dtype"] = words.get("dtype", table.constant("")).map(canonical)
    sizes = operand_sizes(words["dtype"]) if _MATRICES & set(op.present()) else {}
    sizes |= {name: scaled.values(table) for name, scaled in mapping.sizes.items()}
    spread = mapping.spread.values(table) if mapping.spread else None
    return to_samples(table, Measured(op, mapping.time.values(table), sizes, words, spread_ns=spread))


def _scaled(value: Any, at: str, *, needs_unit: bool = False) -> Scaled:
    if isinstance(value, str) and not needs_unit:
        return Scaled(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and not needs_unit:
        return Scaled("", float(value))
    if not isinstance(value, dict) or not isinstance(value.get("column"), str):
        unit_too = ', unit = "us"' if needs_unit else ""
        raise TraceError(f'{at}: needs {{column = "..."{unit_too}}}')
    unit = value.get("unit")
    if needs_unit and unit not in NS_PER:
        raise TraceError(f"{at}: unit {unit!r} is none of {', '.join(NS_PER)}")
    return Scaled(value["column"], float(value.get("times", 1.0)) * (NS_PER[unit] if unit else 1.0))
