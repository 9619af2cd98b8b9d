"""What samples cannot tell: parameters without effect, combinations that cancel, errors too large, bounds reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibration.problem import Problem, bounds
from replay.core.columns import Float64

RANK_TOLERANCE = 1e-6
"""Smallest over largest singular value of the Jacobian with columns of length one; differences resolve about 1e-9."""

LARGEST_LOG_ERROR = 1.0
"""A standard error of a factor e or more: the samples do not tell the order of magnitude."""

SIZES_PER_PARAMETER = 2
"""Distinct sizes that a fit needs for each of its parameters: with fewer it follows the noise of single sizes."""

_AT_BOUND = 1e-4  # of the distance between the bounds


@dataclass(frozen=True, slots=True)
class Undetermined:
    """Parameters that the samples do not tell, the worst first; why, as a sentence's end and in a few words."""

    names: tuple[str, ...]
    reason: str
    short: str


def too_few_sizes(problem: Problem) -> str | None:
    """Why the sizes measured cannot carry the parameters that are still free, ``None`` where they can."""
    names = [spec.name for spec in problem.free]
    needed = SIZES_PER_PARAMETER * len(names)
    if not names or not problem.model.needs:
        return None
    distinct = len(np.unique(np.stack([problem.columns[name] for name in problem.model.needs], axis=1), axis=0))
    if distinct >= needed:
        return None
    told = f"{distinct} distinct size{'s' if distinct > 1 else ''}{_constants(problem)}"
    return f"{told} cannot tell {', '.join(names)} apart; measure at least {needed} sizes"


def without_rank(problem: Problem, jacobian: Float64) -> Undetermined | None:
    """Parameters that change nothing, or a combination of which changes nothing."""
    lengths = np.linalg.norm(jacobian, axis=0)
    names = [spec.name for spec in problem.free]
    if (idle := np.flatnonzero(lengths <= 1e-9 * max(lengths.max(initial=0.0), 1e-300))).size:
        named = tuple(names[i] for i in idle)
        return Undetermined(
            named, f"no sample depends on {' or '.join(named)}{_constants(problem)}", "no sample depends on it"
        )
    _, singular, axes = np.linalg.svd(jacobian / lengths, full_matrices=False)
    if len(singular) < 2 or singular[-1] > RANK_TOLERANCE * singular[0]:
        return None
    weights = np.abs(axes[-1])
    order = np.argsort(-weights, kind="stable")
    named = tuple(names[i] for i in order if weights[i] > 0.1 * weights.max())
    reason = f"the samples cannot tell {' from '.join(named)}{_constants(problem)}"
    return Undetermined(named, reason, "not told from other parameters")


def too_uncertain(problem: Problem, deviation: Float64) -> Undetermined | None:
    """The parameter with the largest error, where that leaves its order of magnitude open."""
    widths = [LARGEST_LOG_ERROR if spec.log else 0.5 * (spec.high - spec.low) for spec in problem.free]
    excess = deviation / np.array(widths)
    if not len(excess) or excess.max() <= 1.0:
        return None
    name = problem.free[int(np.argmax(excess))].name
    why = "standard error of a factor e or more"
    return Undetermined((name,), f"the samples leave {name} open ({why})", why)


def at_bounds(problem: Problem, point: Float64) -> Undetermined | None:
    """Parameters that ended at a bound of their search."""
    found: dict[str, tuple[str, str]] = {}
    for spec, x in zip(problem.free, point, strict=True):
        low, high = bounds(spec)
        margin = _AT_BOUND * (high - low) if np.isfinite(high - low) else 0.0
        if x <= low + margin:
            found[spec.name] = "lower", f"{spec.low:g} {spec.unit}"
        elif x >= high - margin:
            found[spec.name] = "upper", f"{spec.high:g} {spec.unit}"
    if not found:
        return None
    sentences = [f"{name} ends at its {side} bound, {bound}" for name, (side, bound) in found.items()]
    return Undetermined(tuple(found), " and ".join(sentences), "at a bound of its search")


def optional_of(problem: Problem, names: tuple[str, ...]) -> str | None:
    """Of the names, the one that a model can best do without knowing: the optional one that it declares last."""
    optional = [spec.name for spec in problem.free if spec.optional]
    return next((name for name in reversed(optional) if name in names), None)


def _constants(problem: Problem) -> str:
    """Sizes that are the same in every sample, as a hint at what to measure."""
    same: Mapping[str, float] = {
        name: float(problem.columns[name][0])
        for name in problem.model.needs
        if (problem.columns[name] == problem.columns[name][0]).all()
    }
    listed = ", ".join(f"{name} = {value:g}" for name, value in same.items())
    return f" (all have {listed}; measure other values too)" if same else ""
