"""Loss functions: how much a residual counts, and the scale that tells an ordinary residual from an outlier.

Robust is SciPy's ``soft_l1``: rho(u) = 2 c² (sqrt(1 + (u/c)²) - 1), quadratic for |u| << c, linear beyond, with
c = 1.345 · scale (95 % efficient on normal noise for Huber's loss of the same c; Huber 1981, section 4.4).
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from replay.core.columns import Float64

TUNING = 1.345
_SMALLEST_SCALE = 1e-9  # residuals of a model that fits exactly: nothing is an outlier


class Loss(StrEnum):
    """What a residual costs."""

    PLAIN = "plain"
    ROBUST = "robust"


def scale_of(residuals: Float64) -> float:
    """1.4826 · median |r|: the standard deviation where noise is normal, untouched by outliers."""
    return max(1.4826 * float(np.median(np.abs(residuals))), _SMALLEST_SCALE)


def influence(residuals: Float64, loss: Loss, scale: float) -> tuple[Float64, Float64]:
    """psi = d rho/2 / du and its derivative: u / sqrt(1 + (u/c)²) and (1 + (u/c)²)^-1.5; u and 1 where plain."""
    if loss is Loss.PLAIN:
        return residuals, np.ones_like(residuals)
    bend = 1.0 + (residuals / (TUNING * scale)) ** 2
    return np.asarray(residuals / np.sqrt(bend)), np.asarray(bend**-1.5)
