"""Samples: measured times of single ops, one row per measurement, with the file and line each was read from.

What an op's size is depends on the op, so sizes are a dictionary of float columns, ``NaN`` where a row has none:

* ``gemm``: m, n, k (C[m, n] = A[m, k] · B[k, n]), batch, left_nbytes, right_nbytes, output_nbytes (per element),
  scale_block (elements a side that share one scale, 0 none), accumulate (1: C is read, added to and written)
* ``grouped_gemm``: experts, m (rows of one expert), n, k, backward_weight, and the bytes above
* ``moe``: the expert MLP of a layer: tokens (before routing, of the whole expert group), hidden, inter, topk, experts,
  moe_tp, moe_ep, skew (power law of the loads, 0 balanced), left_nbytes, right_nbytes
* ``attention``: batch, seq, kv_seq, heads, kv_heads, head_dim, v_head_dim, causal, backward
* ``memory`` (norms, casts, activations, copies): read_nbytes, written_nbytes
* collectives (:class:`replay.trace.CollectiveKind` in lower case): nbytes (the larger of one rank's two buffers: what
  nccl-tests prints as ``size``), ranks, nodes, ranks_per_node, in_place
* ``dispatch``, ``combine``: tokens (of one rank), hidden, topk, experts, ranks, nodes, ranks_per_node, sms, nbytes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from replay.core.columns import Bool, Float64, Int32, Int64, Interner, check_equal_length, freeze

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN = -1
WORD_COLUMNS = ("op", "dtype", "device", "software", "variant", "source")


@dataclass(frozen=True, slots=True)
class Words:
    """A column of interned strings: ``names[codes[i]]``, "" where unknown."""

    codes: Int32
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str]) -> Words:
        """Intern a sequence of strings."""
        interner = Interner()
        codes = np.fromiter((interner.code(value) for value in values), dtype=np.int32)
        return cls(codes, interner.names)

    @classmethod
    def constant(cls, value: str, n: int) -> Words:
        """The same word in every row."""
        return cls(np.zeros(n, dtype=np.int32), (value,))

    @classmethod
    def joined(cls, parts: Sequence[Words]) -> Words:
        """Several columns one after the other."""
        interner = Interner()
        codes = [np.array([interner.code(name) for name in part.names], dtype=np.int32)[part.codes] for part in parts]
        return cls(np.concatenate(codes), interner.names)

    def __len__(self) -> int:
        return len(self.codes)

    def map(self, function: Callable[[str], str]) -> Words:
        """Every word replaced by ``function`` of it."""
        return Words(self.codes, tuple(function(name) for name in self.names))

    def numbers(self, function: Callable[[str], float]) -> Float64:
        """``function`` of every word."""
        return np.array([function(name) for name in self.names], dtype=np.float64)[self.codes]

    def __getitem__(self, row: int) -> str:
        return self.names[int(self.codes[row])]

    def take(self, rows: Bool | Int64) -> Words:
        """The rows of a mask or of an index array."""
        return Words(self.codes[rows], self.names)

    def equal(self, value: str) -> Bool:
        """Mask of the rows that hold ``value``."""
        return np.asarray(np.isin(self.codes, [i for i, name in enumerate(self.names) if name == value]))

    def present(self) -> tuple[str, ...]:
        """Distinct words that rows hold, in order of first appearance in ``names``."""
        return tuple(dict.fromkeys(self.names[code] for code in np.unique(self.codes)))

    def to_list(self) -> list[str]:
        """One string per row."""
        return [self.names[code] for code in self.codes]


@dataclass(frozen=True, slots=True)
class Samples:
    """Measurements as equal-length columns; see the module's docstring for ``sizes``.

    ``time_ns`` is the typical time of one call (the median where a file has several statistics). ``line`` is the
    1-based line of a text file or row of a table. ``notes`` say what was left out and why, one sentence each.
    """

    time_ns: Float64
    spread_ns: Float64  # standard deviation over repeats, NaN unknown
    repeats: Int64  # calls behind one row, -1 unknown
    line: Int64
    op: Words
    dtype: Words
    device: Words
    software: Words  # what ran it: "nccl 2.28.7", "TRTLLM 1.3.0rc10"
    variant: Words  # kernel, algorithm or protocol, where it is said
    source: Words  # file name
    sizes: Mapping[str, Float64] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in ("time_ns", "spread_ns", "repeats", "line")}
        words = {name: getattr(self, name).codes for name in WORD_COLUMNS}
        check_equal_length("Samples", **numbers, **words, **self.sizes)
        for column in (*numbers.values(), *words.values(), *self.sizes.values()):
            freeze(column)

    def __len__(self) -> int:
        return len(self.time_ns)

    def size(self, name: str) -> Float64:
        """A size column; all ``NaN`` where no row has it."""
        found = self.sizes.get(name)
        return np.full(len(self), np.nan) if found is None else found

    def take(self, rows: Bool | Int64) -> Samples:
        """The rows of a mask or of an index array."""
        words = {name: getattr(self, name).take(rows) for name in WORD_COLUMNS}
        numbers = {name: getattr(self, name)[rows] for name in ("time_ns", "spread_ns", "repeats", "line")}
        return replace(self, **numbers, **words, sizes={name: column[rows] for name, column in self.sizes.items()})

    def where(self, row: int) -> str:
        """Source of one row, for messages: ``file:line``."""
        return f"{self.source[row]}:{int(self.line[row])}"

    @property
    def tier(self) -> Words:
        """Links a collective crosses: ``intra_node``, ``inter_node`` (one rank a node), ``mixed``, "" unknown."""
        nodes, each = self.size("nodes"), self.size("ranks_per_node")
        known = ~np.isnan(nodes) & ~np.isnan(each)
        codes = np.select([~known, nodes == 1, each == 1], [0, 1, 2], default=3)
        return Words(codes.astype(np.int32), ("", "intra_node", "inter_node", "mixed"))

    def to_frame(self) -> pd.DataFrame:
        """One row per measurement, words spelled out."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("sizes", "notes")}
        spelled = {name: c.to_list() if isinstance(c, Words) else c for name, c in columns.items()}
        return pd.DataFrame({**spelled, **self.sizes})


def concatenate(parts: Sequence[Samples]) -> Samples:
    """All rows of several tables, in order; notes one after the other."""
    names = list(dict.fromkeys(name for part in parts for name in part.sizes))
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("time_ns", "spread_ns", "repeats", "line")
    }
    for name in WORD_COLUMNS:
        columns[name] = Words.joined([getattr(part, name) for part in parts])
    sizes = {name: np.concatenate([part.size(name) for part in parts]) for name in names}
    return Samples(**columns, sizes=sizes, notes=tuple(note for part in parts for note in part.notes))
