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
