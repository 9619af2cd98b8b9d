"""Fitted: the parameters of one cost model, as samples determined them, with the range and the score of the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hwprofiles.parameter import Parameter, parameter_from, read_range
from replay.core.columns import Bool, Float64, Int8
from replay.core.errors import ProfileError
from replay.core.evidence import Grade

_KEYS = {"model", "key", "samples", "sources", "parameters", "calibrated", "scores", "learned", "coefficients"}


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of predictions, |predicted / measured - 1| in percent, over ``samples`` rows."""

    median_pct: float
    p90_pct: float
    samples: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """``key`` says what was fitted apart ("op": "gemm", "dtype": "bf16"), ``calibrated`` the sizes that were seen.

    ``scores`` are by split: ``fit`` (the rows fitted), ``random half``, and the extrapolations of the model.
    ``coefficients`` belong to a learned correction, where one was asked for; ``learned`` are the scores with it.
    """

    model: str
    key: Mapping[str, str]
    parameters: Mapping[str, Parameter]
    calibrated: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    scores: Mapping[str, Score] = field(default_factory=dict)
    learned: Mapping[str, Score] = field(default_factory=dict)
    samples: int = 0
    sources: tuple[str, ...] = ()
    coefficients: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        """Parameter values by name: the first argument of the cost model's ``predict``."""
        return {name: parameter.value for name, parameter in self.parameters.items()}

    @property
    def held_out_pct(self) -> float:
        """Mean over the splits of their median error, without the rows fitted; of an unscored fit: infinite."""
        errors = [score.median_pct for split, score in self.scores.items() if split != "fit"]
        return sum(errors) / len(errors) if errors else float("inf")

    def inside(self, columns: Mapping[str, Float64]) -> Bool:
        """Rows whose sizes all lie in the calibrated ranges (a size that the range does not name does not matter)."""
        n = len(next(iter(columns.values()))) if columns else 0
        inside = np.ones(n, dtype=bool)
        for name, (low, high) in self.calibrated.items():
            if name in columns:
                inside &= (columns[name] >= low) & (columns[name] <= high)
        return inside

    def grades(self, columns: Mapping[str, Float64]) -> Int8:
        """``FITTED`` inside the calibrated ranges, ``EXTRAPOLATED`` outside, one per row."""
        return np.where(self.inside(columns), Grade.FITTED, Grade.EXTRAPOLATED).astype(np.int8)


def fitted_from(row: object, at: str) -> Fitted:
    """One ``[[fitted]]`` entry; :class:`ProfileError` names the field that is wrong."""
    if not isinstance(row, dict) or not {"model", "parameters"} <= set(row) <= _KEYS:
        raise ProfileError(f"{at}: needs model and parameters, and may have {', '.join(sorted(_KEYS))}, nothing else")
    for name, kind in (("key", dict), ("parameters", dict), ("calibrated", dict), ("scores", dict), ("learned", dict)):
        if not isinstance(row.get(name, {}), kind):
            raise ProfileError(f"{at}: `{name}` must be a table")
    try:
        return Fitted(
            model=str(row["model"]),
            key={str(name): str(value) for name, value in row.get("key", {}).items()},
            parameters={n: parameter_from(p, f"{at}.parameters.{n}") for n, p in row["parameters"].items()},
            calibrated={n: read_range(r, f"{at}.calibrated.{n}") for n, r in row.get("calibrated", {}).items()},
            scores={name: Score(**score) for name, score in row.get("scores", {}).items()},
            learned={name: Score(**score) for name, score in row.get("learned", {}).items()},
            samples=int(row.get("samples", 0)),
            sources=tuple(map(str, row.get("sources", ()))),
            coefficients={n: tuple(map(float, v)) for n, v in row.get("coefficients", {}).items()},
        )
    except (TypeError, ValueError) as error:
        if isinstance(error, ProfileError):
            raise
        raise ProfileError(f"{at}: {error}") from None
