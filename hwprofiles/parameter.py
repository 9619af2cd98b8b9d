"""Parameter: one number of a profile with unit, error, evidence grade and source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replay.core.errors import ProfileError
from replay.core.evidence import Grade

KEYS = {"value", "unit", "grade", "source", "stderr", "calibrated"}
_GRADES = {grade.label: grade for grade in Grade}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number: ``stderr`` (one standard error) is in the same unit, ``None`` where no fit made it.

    ``calibrated`` are the sizes, by name, between which the number was determined; empty where it is not from a fit.
    """

    value: float
    unit: str
    grade: Grade
    source: str
    stderr: float | None = None
    calibrated: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def parameter_from(row: object, at: str) -> Parameter:
    """A parameter from its table; ``at`` says file and field in the :class:`ProfileError` of a wrong one."""
    if not isinstance(row, dict) or not {"value", "unit", "grade", "source"} <= set(row) <= KEYS:
        raise ProfileError(f"{at}: needs value, unit, grade and source (and may have stderr, calibrated), nothing else")
    if row["grade"] not in _GRADES:
        raise ProfileError(f"{at}: grade {row['grade']!r} is none of {', '.join(_GRADES)}")
    stderr = row.get("stderr")
    ranges = row.get("calibrated", {})
    if not isinstance(ranges, dict):
        raise ProfileError(f"{at}: `calibrated` must be a table of [low, high] by size")
    return Parameter(
        value=_number(row["value"], f"{at}: value"),
        unit=str(row["unit"]),
        grade=_GRADES[row["grade"]],
        source=str(row["source"]),
        stderr=None if stderr is None else _number(stderr, f"{at}: stderr"),
        calibrated={name: read_range(value, f"{at}.calibrated.{name}") for name, value in ranges.items()},
    )


def read_range(value: object, at: str) -> tuple[float, float]:
    """A [low, high] pair."""
    if not isinstance(value, list) or len(value) != 2:
        raise ProfileError(f"{at}: must be [low, high]")
    low, high = (_number(bound, at) for bound in value)
    if low > high:
        raise ProfileError(f"{at}: low {low} is above high {high}")
    return low, high


def _number(value: Any, at: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ProfileError(f"{at} must be a finite number, got {value!r}")
    return float(value)
