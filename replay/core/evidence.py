"""Evidence grades (R11): how a number is known, from best to worst."""

from __future__ import annotations

from enum import IntEnum


class Grade(IntEnum):
    """How a duration or parameter is known; a larger value is weaker evidence."""

    MEASURED = 0
    SCALED = 1
    FITTED = 2
    EXTRAPOLATED = 3
    DATASHEET = 4
    ASSUMED = 5

    @property
    def label(self) -> str:
        """Lower-case word used in reports and JSON."""
        return self.name.lower()


GRADE_WIDTH = {
    Grade.MEASURED: 0.0,
    Grade.SCALED: 0.2,
    Grade.FITTED: 0.3,
    Grade.EXTRAPOLATED: 0.5,
    Grade.DATASHEET: 0.5,
    Grade.ASSUMED: 1.0,
}
"""Half-width at 80 % of a re-timed duration, as a share of its change: a stated rule, not a fit (docs/explanation/
validity.md). An assumed change may not happen at all, or be twice as large."""
