"""Stretches of a rank's time whose phase and pass are certain, and what lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from replay.core.columns import Int64, freeze
from replay.program.types import Phase


class Span(NamedTuple):
    """One stretch; ``number`` is that of its pass, -1 for none."""

    start_ns: int
    end_ns: int
    phase: Phase
    number: int = -1


@dataclass(frozen=True, slots=True)
class Timeline:
    """Spans of one rank in order of begin, as columns."""

    start_ns: Int64
    end_ns: Int64
    phase: Int64
    number: Int64

    def __post_init__(self) -> None:
        for column in (self.start_ns, self.end_ns, self.phase, self.number):
            freeze(column)

    @staticmethod
    def of(spans: Sequence[Span]) -> Timeline:
        """Spans in any order."""
        columns = np.array(sorted(spans), np.int64).reshape(-1, 4)
        return Timeline(*(column.copy() for column in columns.T))

    def latest(self, time_ns: Int64) -> tuple[Int64, Int64]:
        """Phase and pass of the last span to begin by each time, (NONE, -1) before the first."""
        before = np.searchsorted(self.start_ns, time_ns, side="right")
        return np.r_[int(Phase.NONE), self.phase][before], np.r_[-1, self.number][before]

    def at(self, time_ns: Int64) -> tuple[Int64, Int64]:
        """Phase and pass at each time: of the span that holds it, else what :meth:`_between` says."""
        before = np.searchsorted(self.start_ns, time_ns, side="right")
        outside = time_ns >= np.r_[time_ns.min(initial=0), self.end_ns][before]
        gap = np.array([self._between(i) for i in range(-1, len(self.start_ns))], np.int64).reshape(-1, 2)[before]
        phase, number = self.latest(time_ns)
        return np.where(outside, gap[:, 0], phase), np.where(outside, gap[:, 1], number)

    def _between(self, i: int) -> tuple[int, int]:
        """What a thread does after span ``i`` and before the next: it ends the one or prepares the other.

        Before a forward pass it prepares that (loads data, receives); after one it ends it (loss, metrics); what
        follows the last backward pass is the optimizer's.
        """
        nothing = (int(Phase.NONE), -1)
        previous = (int(self.phase[i]), int(self.number[i])) if i >= 0 else nothing
        following = (int(self.phase[i + 1]), int(self.number[i + 1])) if i + 1 < len(self.phase) else nothing
        if following[0] == Phase.FORWARD:
            return following
        if previous[0] == Phase.FORWARD:
            return previous
        if following[0] != Phase.NONE:
            return following
        return (int(Phase.OPTIMIZER), -1) if previous[0] == Phase.BACKWARD else nothing
