"""Problem: one cost model and the samples it can be fitted to, as a residual function of free parameters.

Parameters marked ``log`` are searched as their logarithm, so steps are relative and rates stay positive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from replay.core.columns import Float64, Int64
from replay.core.errors import FitError
from replay.cost_model import CostModel, ParameterSpec
from replay.samples import Samples


class Residual(StrEnum):
    """``LOG``: log(predicted / measured), so that every size counts alike; ``LINEAR``: predicted - measured."""

    LOG = "log"
    LINEAR = "linear"


@dataclass(frozen=True, slots=True)
class Problem:
    """``rows`` are those of the samples given that the model can use; ``fixed`` the values that are not searched."""

    model: CostModel
    samples: Samples
    columns: Mapping[str, Float64]
    rows: Int64
    free: tuple[ParameterSpec, ...]
    fixed: Mapping[str, float]
    residual: Residual

    def __len__(self) -> int:
        return len(self.samples)

    def values(self, point: Float64) -> dict[str, float]:
        """Parameter values by name at a point of the search, in the order of the model."""
        searched = {spec.name: outward(spec, x) for spec, x in zip(self.free, point, strict=True)}
        known = {**self.fixed, **searched}
        return {spec.name: known[spec.name] for spec in self.model.parameters}

    def predicted(self, point: Float64) -> Float64:
        """Times at a point of the search, ns."""
        return np.asarray(self.model.predict(self.values(point), self.columns), dtype=np.float64)

    def residuals(self, point: Float64) -> Float64:
        """Unweighted residuals; :class:`FitError` where the model gives no time."""
        predicted = self.predicted(point)
        if self.residual is Residual.LINEAR:
            return predicted - self.samples.time_ns
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.log(predicted / self.samples.time_ns)
        if not np.isfinite(found).all():
            row = int(np.argmin(np.isfinite(found)))
            raise FitError(
                f"{self.model.name}: predicts {predicted[row]} ns for {self.samples.where(row)}, which is no time; the "
                "cost function must be positive and finite within the bounds of its parameters"
            )
        return np.asarray(found)

    def jacobian(self, point: Float64) -> Float64:
        """d residual / d point, (n, p), by central differences with a relative step of 1e-5."""
        columns = []
        for i in range(len(point)):
            step = np.zeros_like(point)
            step[i] = 1e-5 * max(abs(point[i]), 1e-3 if not self.free[i].log else 1.0)
            above, below = (self.residuals(point + sign * step) for sign in (1.0, -1.0))
            columns.append((above - below) / (2.0 * step[i]))
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0))

    def holding(self, name: str, value: float) -> Problem:
        """The same problem with one parameter no longer searched."""
        free = tuple(spec for spec in self.free if spec.name != name)
        return replace(self, free=free, fixed={**self.fixed, name: value})

    def take(self, rows: Int64) -> Problem:
        """The same problem on some of its rows."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, samples=self.samples.take(rows), columns=columns, rows=self.rows[rows])

    def start(self, values: Mapping[str, float]) -> Float64:
        """The point of given values, pushed inside the bounds."""
        inward_values = []
        for spec in self.free:
            low, high = bounds(spec)
            inward_values.append(min(max(inward(spec, values.get(spec.name, spec.initial)), low), high))
        return np.asarray(inward_values, dtype=np.float64)


def pose(model: CostModel, samples: Samples, residual: Residual, given: Mapping[str, float]) -> Problem:
    """The problem of a model and the rows that have what it needs; ``given`` are known values of parameters.

    :class:`FitError` where no row is usable, or too few for the number of parameters.
    """
    rows = usable(model, samples, residual)
    free = tuple(spec for spec in model.parameters if not spec.given)
    required = [spec.name for spec in free if not spec.optional]
    if len(rows) <= len(required):
        raise FitError(
            f"{model.name}: {len(rows)} usable samples of {len(samples)} cannot determine {len(required)} parameters "
            f"({', '.join(required)}); give at least {len(required) + 1}"
        )
    chosen = samples.take(rows)
    columns = model.prepared(sizes_of(model, chosen))
    fixed = {spec.name: float(given.get(spec.name, spec.initial)) for spec in model.parameters if spec.given}
    return Problem(model, chosen, columns, rows, free, fixed, residual)


def sizes_of(model: CostModel, samples: Samples) -> dict[str, Float64]:
    """Size columns of samples: those that the model needs, and what else there is."""
    return {name: samples.size(name) for name in dict.fromkeys((*model.needs, *samples.sizes))}


def usable(model: CostModel, samples: Samples, residual: Residual = Residual.LOG) -> Int64:
    """Rows of the model's ops that have every size it needs and a time that is one."""
    mask = np.isfinite(samples.time_ns)
    if residual is Residual.LOG:
        mask &= samples.time_ns > 0
    if model.ops:
        mask &= np.logical_or.reduce([samples.op.equal(op) for op in model.ops])
    for name in model.needs:
        mask &= np.isfinite(samples.size(name))
    return np.flatnonzero(mask)


def inward(spec: ParameterSpec, value: float) -> float:
    """Value to search coordinate."""
    return float(np.log(value)) if spec.log else float(value)


def outward(spec: ParameterSpec, x: float) -> float:
    """Search coordinate to value."""
    return float(np.exp(x)) if spec.log else float(x)


def bounds(spec: ParameterSpec) -> tuple[float, float]:
    """Bounds in search coordinates."""
    return inward(spec, spec.low), inward(spec, spec.high)
