"""What graph-level what-ifs share: a factor that is checked, and durations that are scaled with their grade."""

from __future__ import annotations

import math

import numpy as np

from replay.core.columns import Bool, Int8, Int64
from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.graph.types import Graph

_LARGEST = 1e6  # a step of an hour times this still fits the clock: int64 ns, 292 years


def check_factor(option: str, factor: float, *, zero: bool) -> None:
    """Refuse factors that are negative, not finite, out of all proportion, or 0 where ``zero`` is no answer."""
    if not math.isfinite(factor) or factor < 0 or (factor == 0 and not zero):
        bound = "0 or more" if zero else "more than 0"
        raise RefusedError(f"{option}: the factor must be a finite number of {bound}, got {factor:g}")
    if factor > _LARGEST or 0 < factor < 1 / _LARGEST:
        raise RefusedError(f"{option}: {factor:g} is beyond what is modelled, {1 / _LARGEST:g} to {_LARGEST:g}")


def scaled(graph: Graph, chosen: Bool, factor: float) -> Graph:
    """``graph`` with the durations of the ``chosen`` ops multiplied, in whole ns; what changes is graded ``scaled``."""
    duration: Int64 = graph.duration_ns.copy()
    duration[chosen] = np.rint(duration[chosen] * factor).astype(np.int64)
    return graph.with_durations(duration, regraded(graph, duration != graph.duration_ns))


def regraded(graph: Graph, changed: Bool) -> Int8:
    """Grades of the ops, no better than ``scaled`` where a duration has changed."""
    return np.where(changed, np.maximum(graph.grade, Grade.SCALED), graph.grade).astype(np.int8)
