"""Rows of a samples file, gathered one by one and turned into a table at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from replay.core.dtypes import canonical
from replay.samples import UNKNOWN, Samples, Words


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement as a text format gives it."""

    op: str
    time_ns: float
    line: int
    sizes: dict[str, float]
    dtype: str = ""
    device: str = ""
    software: str = ""
    variant: str = ""
    repeats: int = UNKNOWN
    spread_ns: float = field(default=float("nan"))


def table(rows: Sequence[Row], source: str, notes: Sequence[str] = ()) -> Samples:
    """The rows as one table of one source file."""
    names = list(dict.fromkeys(name for row in rows for name in row.sizes))
    return Samples(
        time_ns=np.array([row.time_ns for row in rows], dtype=np.float64),
        spread_ns=np.array([row.spread_ns for row in rows], dtype=np.float64),
        repeats=np.array([row.repeats for row in rows], dtype=np.int64),
        line=np.array([row.line for row in rows], dtype=np.int64),
        op=Words.of(row.op for row in rows),
        dtype=Words.of(canonical(row.dtype) for row in rows),
        device=Words.of(row.device for row in rows),
        software=Words.of(row.software for row in rows),
        variant=Words.of(row.variant for row in rows),
        source=Words.constant(source, len(rows)),
        sizes={name: np.array([row.sizes.get(name, np.nan) for row in rows], dtype=np.float64) for name in names},
        notes=tuple(notes),
    )


def spans(hosts: Iterable[str]) -> dict[str, float]:
    """ranks, nodes and (where all nodes have as many) ranks_per_node, from the host of each rank."""
    nodes = Counter(hosts)
    if not nodes:
        return {}
    each = set(nodes.values())
    found = {"ranks": float(nodes.total()), "nodes": float(len(nodes))}
    return found | ({"ranks_per_node": float(each.pop())} if len(each) == 1 else {})


def common(words: Iterable[str]) -> str:
    """The word that all are, "" where they differ."""
    distinct = set(words)
    return distinct.pop() if len(distinct) == 1 else ""


@dataclass(slots=True)
class Gathered:
    """Rows and the reasons why others were left out, while a file is read."""

    source: str
    rows: list[Row] = field(default_factory=list)
    left_out: dict[str, list[int]] = field(default_factory=dict)  # reason → lines
    notes: list[str] = field(default_factory=list)

    def leave_out(self, reason: str, line: int) -> None:
        """A line that holds no usable measurement."""
        self.left_out.setdefault(reason, []).append(line)

    def say(self, text: str, line: int) -> None:
        """A fact about a line that a user should know."""
        self.notes.append(f"{self.source}:{line}: {text}")

    def sentences(self) -> list[str]:
        """Notes, and one sentence for each reason to leave lines out."""
        reasons = [
            f"{self.source}:{lines[0]}: {len(lines)} row{'s' if len(lines) > 1 else ''} left out, {why}"
            for why, lines in self.left_out.items()
        ]
        return [*self.notes, *reasons]

    def samples(self) -> Samples:
        """All rows as a table, with its notes."""
        return table(self.rows, self.source, self.sentences())
