"""A Retiming being filled in, one class of ops after the other."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Float64
from replay.core.evidence import Grade
from replay.graph.types import Graph
from replay.program.retiming import Change, Retiming

Bracket = tuple[float | Float64, float | Float64]


class Draft:
    """Starts from nothing changed; each :meth:`put` states one class of ops."""

    def __init__(self, graph: Graph) -> None:
        n = len(graph)
        self._factor, self._low, self._high = np.ones(n), np.ones(n), np.ones(n)
        self._grade = graph.grade.copy()
        self._reason = np.full(n, -1, dtype=np.int32)
        self._formulas: list[str] = []
        self._changes: list[Change] = []
        self._warnings: list[str] = []

    def put(self, ops: Bool, factor: float | Float64, bracket: Bracket, change: Change) -> None:
        """Multiply ``ops`` by ``factor``, within ``bracket``; the change says why and how well it is known."""
        if not ops.any():
            return
        self._factor[ops], self._low[ops], self._high[ops] = factor, bracket[0], bracket[1]
        self._grade[ops] = np.maximum(self._grade[ops], change.grade)
        self._reason[ops] = len(self._formulas)
        self._formulas.append(f"{change.name}: {change.formula}")
        self._changes.append(change)

    def warn(self, text: str) -> None:
        """A sentence for the report."""
        self._warnings.append(text)

    def finish(self) -> Retiming:
        """The retiming."""
        return Retiming(
            self._factor,
            self._low,
            self._high,
            self._grade,
            self._reason,
            tuple(self._formulas),
            tuple(self._changes),
            tuple(self._warnings),
        )


def quantities(**values: float | None) -> dict[str, float]:
    """Named quantities without the unknown ones."""
    return {name: float(value) for name, value in values.items() if value is not None}


def grade_of(*, profiled: bool) -> Grade:
    """A ratio of a model's answers is ``scaled`` (R1); without parameters it is ``assumed``."""
    return Grade.SCALED if profiled else Grade.ASSUMED
