"""Minimisation with lmfit: bounded least squares, robust where asked, on a thinned table first where it is large."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibration.loss import TUNING, Loss, scale_of
from calibration.problem import Problem, Residual, bounds
from replay.core.columns import Float64, Int64

THINNED_ROWS = 4096
"""Rows that are enough to place some twelve parameters; the rest of a table only makes them more precise."""

COARSE_ROWS = 512
"""Rows that lead from the start values to the right valley, at an eighth of the cost."""

_RESCALINGS = 4
_SCALE_TOLERANCE = 0.03  # where the loss bends needs no more digits
_FIRST_SCALE = 0.1  # of log residuals: what is beyond 13 % off counts less before the real scale is known
_LARGE_TOLERANCE = 0.03  # over the number of rows: a sixth of a standard error
_STEPS = 60  # of one minimisation; a valley that takes longer is flat, and judged as such
ROUGH = 1e-6
"""Tolerance that is enough to see what the samples cannot tell."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Minimum of a problem: the point, the weights of its rows, and the scale of an ordinary residual."""

    point: Float64
    weights: Float64
    scale: float
    loss: Loss


def thinned(problem: Problem, rows: int = THINNED_ROWS) -> Problem:
    """The problem on rows spread evenly over the times, where it has many more than are needed."""
    return problem if len(problem) <= 2 * rows else problem.take(spread_evenly(problem.samples.time_ns, rows))


def spread_evenly(time_ns: Float64, rows: int) -> Int64:
    """Indices of ``rows`` of the times, evenly spread over their order."""
    order = np.argsort(time_ns, kind="stable")
    return np.asarray(np.sort(order[np.linspace(0, len(order) - 1, rows).astype(np.int64)]))


def solve(
    problem: Problem, loss: Loss, start: Mapping[str, float], tolerance: float, scale: float | None = None
) -> Solution:
    """Minimise from start values (and a known scale of the residuals) to a relative tolerance of the cost.

    The scale is measured, and the minimum found again, until it no longer moves. Of many rows the cost is the sum, so a
    tolerance of 1 / n already is about a standard error.
    """
    tolerance = max(tolerance, _LARGE_TOLERANCE / len(problem)) if len(problem) >= THINNED_ROWS else tolerance
    point = problem.start(start)
    scaled = loss is Loss.ROBUST or bool(np.isfinite(problem.samples.spread_ns).any())
    rounds = _RESCALINGS if scaled and tolerance < ROUGH else 1
    if scale is None:
        scale = _FIRST_SCALE if problem.residual is Residual.LOG else scale_of(problem.residuals(point))
    weights = weights_of(problem, scale)
    for _ in range(rounds):
        point = _minimise(problem, Solution(point, weights, scale, loss), tolerance)
        before, scale = scale, scale_of(weights * problem.residuals(point))
        weights = weights_of(problem, scale)
        if abs(scale - before) < _SCALE_TOLERANCE * before:
            break
    return Solution(point, weights, scale, loss)


def weights_of(problem: Problem, scale: float) -> Float64:
    """1 / sqrt(1 + (e / scale)²), e = spread / (time · sqrt(repeats)): the known error of a row beside the usual one.

    Where only repeats are known, a row with fewer than the median counts as the mean of fewer: sqrt(repeats / median).
    """
    samples = problem.samples
    known = samples.repeats > 0
    repeats = np.where(known, samples.repeats, 1).astype(np.float64)
    unit = 1.0 if problem.residual is Residual.LINEAR else samples.time_ns
    error = np.nan_to_num(samples.spread_ns / (unit * np.sqrt(repeats)))
    weights = 1.0 / np.sqrt(1.0 + (error / scale) ** 2)
    bare = known & np.isnan(samples.spread_ns)
    if bare.any():
        weights = np.where(bare, np.sqrt(np.minimum(1.0, repeats / np.median(repeats[bare]))), weights)
    return np.asarray(weights)


def _minimise(problem: Problem, start: Solution, tolerance: float) -> Float64:
    """The point of the minimum under the weights and the scale of ``start``, from its point."""
    if not len(start.point):
        return start.point
    import lmfit  # noqa: PLC0415 - slow to import, and only fits need it

    parameters = lmfit.Parameters()
    for spec, x in zip(problem.free, start.point, strict=True):
        low, high = bounds(spec)
        parameters.add(spec.name, value=x, min=low, max=high)

    def residuals(searched: Any) -> Float64:
        return np.asarray(start.weights * problem.residuals(np.array([p.value for p in searched.values()])))

    robust = {"loss": "soft_l1", "f_scale": TUNING * start.scale}
    kind = robust if start.loss is Loss.ROBUST else {"loss": "linear"}
    central = tolerance < 1e-8 and len(problem) < THINNED_ROWS
    evaluations = _STEPS * (1 + (2 if central else 1) * len(start.point))
    with np.errstate(invalid="ignore", divide="ignore"):  # lmfit's own errors, which are not used
        result = lmfit.Minimizer(residuals, parameters).minimize(
            method="least_squares", x_scale="jac", jac="3-point" if central else "2-point", max_nfev=evaluations,
            ftol=tolerance, xtol=tolerance, gtol=None, **kind,
        )  # fmt: skip
    return np.array([p.value for p in result.params.values()])
