"""CostModel: a function that predicts times from sizes, with what fitting it needs to know.

The function that is fitted is the function that predicts: a file of ``replay.costs`` or ``replay.collectives`` offers
``COST_MODELS``, a tuple of these; calibration finds them by scanning the folders and calls ``predict`` and nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from replay.core.columns import Bool, Float64

Columns = Mapping[str, Float64]
"""Size columns of equal length by name (:mod:`replay.samples`)."""

Values = Mapping[str, float]
"""Parameter values by name, in the units of their specifications."""


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter of a cost model.

    ``log``: positive, and searched as its logarithm (rates, times). ``given``: never fitted; a fact of the device.
    ``profile`` names the profile parameter that gives the start value (of a ``given`` one: the value); ``{dtype}`` in
    it is replaced. ``optional``: where the samples cannot tell it, it stays where it ended (grade ``assumed``) instead
    of the fit being refused. With too few sizes to carry it, it stays at ``off``, where what it stands for does
    nothing, or where it began.
    """

    name: str
    unit: str
    initial: float
    low: float
    high: float
    log: bool = True
    given: bool = False
    optional: bool = False
    profile: str = ""
    off: float | None = None

    def __post_init__(self) -> None:
        if not self.low <= self.initial <= self.high:
            raise ValueError(f"parameter {self.name}: {self.initial} is outside {self.low}..{self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"parameter {self.name}: a logarithmic search needs a positive lower bound")


@dataclass(frozen=True, slots=True)
class HoldOut:
    """A split that tests extrapolation: ``held_out`` marks the rows that a fit must predict without having seen."""

    name: str
    held_out: Callable[[Columns], Bool]


@dataclass(frozen=True, slots=True)
class CostModel:
    """A cost function: ``predict(values, columns)`` gives ns, vectorised, positive and finite.

    ``ops`` are the sample ops it explains, ``needs`` the size columns it reads (a row that lacks one is left out, and
    said so), ``by`` the columns whose distinct values are fitted apart ("op", "dtype", "variant", "tier", or a size).
    ``calibrated`` are the size columns whose range in the samples bounds where a prediction counts as fitted.
    ``prepare`` adds columns that depend on sizes alone, so that a search computes them once; ``predict`` must do
    without them too. ``knots`` are the sizes that a learned correction may be laid over, and how many knots at most
    (:mod:`replay.costs.correction`); empty: none.
    """

    name: str
    ops: tuple[str, ...]
    needs: tuple[str, ...]
    parameters: tuple[ParameterSpec, ...]
    predict: Callable[[Values, Columns], Float64]
    by: tuple[str, ...] = ("op", "dtype")
    calibrated: tuple[str, ...] = ()
    holdouts: tuple[HoldOut, ...] = ()
    prepare: Callable[[Columns], Columns] | None = None
    knots: Mapping[str, int] = field(default_factory=dict)

    def prepared(self, columns: Columns) -> Columns:
        """The columns, and those that ``prepare`` adds."""
        return columns if self.prepare is None else self.prepare(columns)

    def initial(self) -> dict[str, float]:
        """Start values by name."""
        return {spec.name: spec.initial for spec in self.parameters}


def largest_decade(column: str) -> HoldOut:
    """Hold out the rows whose ``column`` is above a tenth of its largest value."""
    return HoldOut(f"largest decade of {column}", lambda columns: columns[column] > columns[column].max() / 10)


def above_quantile(name: str, size: Callable[[Columns], Float64], quantile: float = 0.8) -> HoldOut:
    """Hold out the rows whose ``size`` lies above a quantile."""

    def held_out(columns: Columns) -> Bool:
        values = size(columns)
        return np.asarray(values > np.quantile(values, quantile))

    return HoldOut(f"{name} above the {quantile:.0%} quantile", held_out)


def largest_value(column: str) -> HoldOut:
    """Hold out the rows with the largest value of a column with few values (a group size, a number of nodes)."""
    return HoldOut(f"largest {column}", lambda columns: columns[column] == columns[column].max())


def every_other_size(column: str) -> HoldOut:
    """Hold out every other distinct value of a column, so that each must be predicted from its neighbours."""

    def held_out(columns: Columns) -> Bool:
        distinct, index = np.unique(columns[column], return_inverse=True)
        return np.asarray((index % 2 == 1) & (index < len(distinct) - 1))

    return HoldOut(f"every other {column}", held_out)
