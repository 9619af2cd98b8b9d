"""Learns the calibration of intervals from cases whose answer was measured.

The sum of interval scores (Gneiting and Raftery 2007, eq. 43) is minimised: ``width + (2 / alpha) x what lies outside``
with ``alpha = 0.2``. It is proper: the least is reached by intervals that hold 80 % and are as narrow as that allows.
With few cases every number is drawn towards the rule without cases: factor 1, floor 0, weight ``n / (n + 8)``. Then all
widths are multiplied by one number of at least 1, the ``ceil(0.8 (n + 1))``-th smallest of |error| / width (split
conformal prediction; Vovk, Lei), so that at least 80 % of exchangeable cases lie inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from replay.core.columns import Float64
from replay.core.errors import FitError
from replay.report.validation.types import CaseRow
from replay.session.interval_calibration import BRACKETS, Calibration

LEVEL = 0.8
PRIOR_CASES = 8  # weight of the rule without cases
FEWEST = 5  # the least of which 80 % is a number of cases
FACTORS = np.unique(np.append(np.geomspace(0.05, 2.0, 38), 1.0))
FLOORS = np.append(0.0, np.geomspace(0.0005, 0.2, 54))
ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Evidence:
    """Per case: measured / predicted - 1, the squared widths on that side by family, and the sizes that change."""

    error: Float64
    measured: Float64
    retiming: Float64
    changed: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, rows: Iterable[CaseRow]) -> Evidence:
        """What predicted cases tell; those without parts (recordings of passes) are left out."""
        known = [row for row in rows if row.predicted_step_ms and row.measured_step_ms and row.widths]
        error = np.array([(row.measured_step_ms or 0) / (row.predicted_step_ms or 1) - 1 for row in known])
        squares = [
            [
                sum((w.high if e > 0 else w.low) ** 2 for w in row.widths if (w.kind in BRACKETS) == bracket)
                for row, e in zip(known, error.tolist(), strict=True)
            ]
            for bracket in (False, True)
        ]
        return cls(error, np.array(squares[0]), np.array(squares[1]), tuple(row.changed for row in known))

    def __len__(self) -> int:
        return len(self.error)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Every size that changes in some case."""
        return tuple(dict.fromkeys(size for sizes in self.changed for size in sizes))

    def width(self, by: Calibration) -> Float64:
        """Half-widths under a calibration."""
        floors = np.array([sum(by.floor.get(size, 0.0) ** 2 for size in sizes) for sizes in self.changed])
        return np.asarray(np.sqrt(by.measured**2 * self.measured + by.retiming**2 * self.retiming + floors))

    def coverage(self, by: Calibration) -> float:
        """Share of cases inside."""
        return float(np.mean(np.abs(self.error) <= self.width(by)))

    def score(self, by: Calibration) -> float:
        """Mean interval score of half-widths: less is better."""
        width = self.width(by)
        return float(np.mean(width + np.maximum(np.abs(self.error) - width, 0.0) / (1 - LEVEL)))


def fit(rows: Iterable[CaseRow]) -> Calibration:
    """The calibration that ``rows`` teach. Raises :class:`FitError` for fewer than five predicted cases."""
    evidence = Evidence.of(rows)
    if len(evidence) < FEWEST:
        raise FitError(f"{len(evidence)} predicted cases say nothing of an 80 % interval; give at least {FEWEST}")
    drawn = _drawn_to_the_rule(evidence, _least_score(evidence))
    return replace(_conformal(evidence, drawn), cases=len(evidence))


def _least_score(evidence: Evidence) -> Calibration:
    """One number after the other on its grid, until nothing improves: first one floor for all, then each its own."""
    best = Calibration()
    for shared in (True, False):
        for _ in range(ROUNDS):
            before = best
            for candidates in _moves(evidence.sizes, best, shared=shared):
                best = min((best, *candidates), key=evidence.score)
            if best == before:
                break
    return best


def _moves(sizes: Sequence[str], at: Calibration, *, shared: bool) -> list[list[Calibration]]:
    """Candidates that differ from ``at`` in one number."""
    floors: list[list[Calibration]] = (
        [[replace(at, floor=dict.fromkeys(sizes, value)) for value in FLOORS.tolist()]]
        if shared
        else [[replace(at, floor={**at.floor, size: value}) for value in FLOORS.tolist()] for size in sizes]
    )
    return [
        [replace(at, measured=value) for value in FACTORS.tolist()],
        [replace(at, retiming=value) for value in FACTORS.tolist()],
        *floors,
    ]


def _conformal(evidence: Evidence, found: Calibration) -> Calibration:
    """All widths by one factor, so that 80 % of as many cases and one more are inside.

    Widened only: what drew the numbers towards the rule is not undone where the cases happen to agree.
    """
    ratios = np.sort(np.abs(evidence.error) / np.maximum(evidence.width(found), 1e-9))
    at = min(ceil(LEVEL * (len(ratios) + 1)), len(ratios)) - 1
    factor = max(1.0, float(ratios[at]))
    floors = {size: value * factor for size, value in found.floor.items()}
    return Calibration(found.measured * factor, found.retiming * factor, floors)


def _drawn_to_the_rule(evidence: Evidence, found: Calibration) -> Calibration:
    """Factors towards 1 (as logarithms), each floor towards 0, by the number of cases that taught it."""
    weight = _weight(len(evidence))
    count = {size: sum(size in sizes for sizes in evidence.changed) for size in found.floor}
    floors = {size: value * _weight(count[size]) for size, value in found.floor.items()}
    measured, retiming = (max(factor, float(FACTORS[0])) ** weight for factor in (found.measured, found.retiming))
    return Calibration(measured, retiming, floors)


def _weight(cases: int) -> float:
    """n / (n + 8)."""
    return cases / (cases + PRIOR_CASES)
