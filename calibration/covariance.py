"""Covariance of fitted parameters, in search coordinates.

* classical: s² (J'J)^-1, s² = r'r / (n - p); right where the loss is plain and noise has one scale.
* sandwich: A^-1 B A^-1 with A = sum psi' J J', B = sum psi² / (1 - h)² J J', h the leverage of a row (HC3, MacKinnon
  and White 1985; for M-estimators Huber 1981, section 7.6); right for the robust loss and for uneven noise.
* bootstrap: the spread of refits on rows drawn with replacement.

``J`` and residuals are weighted.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from calibration.loss import Loss, influence
from calibration.problem import Problem
from calibration.solve import ROUGH, Solution, solve
from replay.core.columns import Float64

BOOTSTRAP_REFITS = 200


class Errors(StrEnum):
    """How standard errors are found; ``AUTO``: classical for the plain loss, sandwich for the robust one."""

    AUTO = "auto"
    CLASSICAL = "classical"
    SANDWICH = "sandwich"
    BOOTSTRAP = "bootstrap"


def covariance(problem: Problem, solution: Solution, jacobian: Float64, errors: Errors, seed: int) -> Float64:
    """Covariance matrix (p, p) of the free parameters; ``jacobian`` is that of the unweighted residuals."""
    if errors is Errors.AUTO:
        errors = Errors.SANDWICH if solution.loss is Loss.ROBUST else Errors.CLASSICAL
    if errors is Errors.BOOTSTRAP:
        return bootstrap(problem, solution, seed)
    weighted = solution.weights[:, None] * jacobian
    residuals = solution.weights * problem.residuals(solution.point)
    if errors is Errors.CLASSICAL:
        spare = len(residuals) - weighted.shape[1]
        return np.asarray(float(residuals @ residuals) / spare * _inverse(weighted.T @ weighted))
    return sandwich(weighted, residuals, solution)


def sandwich(jacobian: Float64, residuals: Float64, solution: Solution) -> Float64:
    """A^-1 B A^-1 of the weighted Jacobian and residuals."""
    psi, slope = influence(residuals, solution.loss, solution.scale)
    bread = _inverse((jacobian * slope[:, None]).T @ jacobian)
    leverage = slope * np.einsum("ij,jk,ik->i", jacobian, bread, jacobian)
    spread = psi / (1.0 - np.clip(leverage, 0.0, 0.9))
    meat = (jacobian * (spread**2)[:, None]).T @ jacobian
    return np.asarray(bread @ meat @ bread)


def bootstrap(problem: Problem, solution: Solution, seed: int) -> Float64:
    """Covariance over refits on resampled rows, the same for the same seed."""
    rng = np.random.default_rng(seed)
    start = problem.values(solution.point)
    points = [
        solve(problem.take(np.sort(rng.integers(0, len(problem), len(problem)))), solution.loss, start, ROUGH).point
        for _ in range(BOOTSTRAP_REFITS)
    ]
    return np.atleast_2d(np.cov(np.array(points), rowvar=False))


def correlation(covariances: Float64) -> Float64:
    """Correlation matrix of a covariance matrix."""
    deviation = np.sqrt(np.diag(covariances))
    return np.asarray(covariances / np.outer(deviation, deviation))


def _inverse(matrix: Float64) -> Float64:
    """Inverse of a Gram matrix, equilibrated first: parameters may differ by many powers of ten."""
    size = np.sqrt(np.diag(matrix))
    return np.asarray(np.linalg.inv(matrix / np.outer(size, size)) / np.outer(size, size))
