"""Learning the correction of a fitted cost model: ridge regression of its residuals, smooth between knots.

Minimises Σ loss(r - Bw) + ridge·|w|² + smooth·|Dw|² by reweighted least squares, with a loss close to the
absolute value so that a few wrong measurements do not bend the table; D are differences between neighbouring knots.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from calibration.loss import scale_of
from replay.core.columns import Float64
from replay.core.errors import FitError
from replay.cost_model import Columns, CostModel, Values
from replay.costs.correction import Correction, corners, logarithms, seen_ranges, tables

FEWEST_ROWS = 1000
"""Rows below which nothing is learned: a table of thousands of weights would repeat them."""

RIDGE = 0.1
SMOOTH = 0.1
_ROUNDS = 4
_SHARPNESS = 0.5  # of the usual residual, beyond which a row counts less
_ITERATIONS = 200
_SMALLEST_SCALE = 1e-6  # of residuals that the table takes up whole


def learn(residuals: Float64, columns: Columns, knots: dict[str, int]) -> Correction:
    """Correction of log(measured / predicted) over size columns; ``knots``: how many at most, by column.

    :class:`FitError` where a column has one value only.
    """
    names = tuple(knots)
    sizes = logarithms(names, columns)
    placed = tuple(_knots(sizes[:, d], knots[name], name) for d, name in enumerate(names))
    index, value = corners(sizes, placed)
    rows = np.repeat(np.arange(len(sizes)), index.shape[1])
    width = sum(int(np.prod([len(placed[d]) for d in dimensions])) for dimensions in tables(len(names)))
    basis = sparse.csr_array((value.ravel(), (rows, index.ravel())), shape=(len(sizes), width))
    weights = _solve(basis, residuals, _penalty(placed))
    return Correction(names, placed, weights, seen_ranges(sizes))


def correction_of(model: CostModel, values: Values, columns: Columns, time_ns: Float64) -> Correction | None:
    """What the physics of a model leaves over of measured times; ``None`` where that cannot be learned."""
    if len(time_ns) < FEWEST_ROWS or not model.knots:
        return None
    if any(len(np.unique(columns[name])) < 2 for name in model.knots):
        return None
    return learn(np.log(time_ns / model.predict(values, columns)), columns, dict(model.knots))


def _knots(values: Float64, count: int, name: str) -> Float64:
    """Quantiles of the distinct values, so that knots lie where sizes were measured."""
    distinct = np.unique(values)
    if len(distinct) < 2:
        raise FitError(f"a correction over {name} needs two values of it, the samples have {len(distinct)}")
    return np.unique(np.quantile(distinct, np.linspace(0.0, 1.0, max(2, min(count, len(distinct))))))


def _penalty(knots: tuple[Float64, ...]) -> sparse.csr_array:
    """Ridge on every weight and differences between neighbours along each size of each table."""
    parts, offset = [], 0
    widths = [int(np.prod([len(knots[d]) for d in dimensions])) for dimensions in tables(len(knots))]
    for dimensions, width in zip(tables(len(knots)), widths, strict=True):
        cells = np.arange(width).reshape([len(knots[d]) for d in dimensions]) + offset
        for axis in range(cells.ndim):
            left = np.take(cells, range(cells.shape[axis] - 1), axis).ravel()
            right = np.take(cells, range(1, cells.shape[axis]), axis).ravel()
            count = np.arange(len(left))
            ones = np.sqrt(SMOOTH) * np.ones(len(left))
            entries = (np.concatenate([ones, -ones]), (np.tile(count, 2), np.concatenate([left, right])))
            parts.append(sparse.csr_array(entries, shape=(len(left), sum(widths))))
        offset += width
    parts.append(np.sqrt(RIDGE) * sparse.eye_array(sum(widths), format="csr"))
    return sparse.csr_array(sparse.vstack(parts))


def _solve(basis: sparse.csr_array, residuals: Float64, penalty: sparse.csr_array) -> Float64:
    nothing = np.zeros(penalty.shape[0])
    trust = np.ones(len(residuals))
    weights = np.zeros(penalty.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(trust)
        system = sparse.vstack([sparse.diags_array(root) @ basis, penalty])
        weights = lsqr(system, np.concatenate([root * residuals, nothing]), iter_lim=_ITERATIONS)[0]
        left = residuals - basis @ weights
        scale = max(scale_of(left), _SMALLEST_SCALE)
        trust = 1.0 / np.sqrt(1.0 + (left / (_SHARPNESS * scale)) ** 2)
    return np.asarray(weights, dtype=np.float64)
