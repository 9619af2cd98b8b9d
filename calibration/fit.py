"""fit: parameters of a cost model from samples, with errors, correlations and outliers.

Residuals are log(predicted / measured) by default. Where the samples cannot determine a parameter, or it ends at a
bound, the fit is refused with a sentence; a parameter that its model marks optional is held where it ended instead, one
that a profile knows at the profile's value, and the result says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from calibration import identify
from calibration.covariance import Errors, correlation, covariance
from calibration.loss import Loss
from calibration.problem import Problem, Residual, pose
from calibration.solve import COARSE_ROWS, ROUGH, Solution, solve, thinned
from hwprofiles.fitted import Score
from replay.core.columns import Float64, Int64
from replay.core.errors import FitError
from replay.cost_model import CostModel
from replay.samples import Samples

OUTLIER_SCALES = 5.0
"""A row further off than this many ordinary residuals is listed as an outlier, if it matters."""

OUTLIER_SHARE = 0.05
"""A row matters that is predicted worse than this: a perfect fit makes outliers of thousandths."""


@dataclass(frozen=True, slots=True)
class FitOptions:
    """``start`` are values by parameter (of given ones: the values); ``seed`` is for resampling and random splits.

    ``known`` are values of a profile: what the samples do not determine is held there rather than the fit refused.
    ``tolerance`` is relative, of cost and parameters. ``learned``: also learn a correction where the model has one; the
    parameters are those without it.
    """

    loss: Loss = Loss.ROBUST
    residual: Residual = Residual.LOG
    errors: Errors = Errors.AUTO
    start: Mapping[str, float] = field(default_factory=dict)
    known: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    tolerance: float = 1e-14
    learned: bool = False


@dataclass(frozen=True, slots=True)
class FitResult:
    """What samples say about a cost model. ``rows`` of the samples given were used.

    ``stderr`` holds the fitted parameters only, in their units (of logarithmic ones value · error of the logarithm);
    ``correlations`` is in the order of ``names``. ``outliers`` index the samples given, the worst first.
    """

    model: CostModel
    values: Mapping[str, float]
    stderr: Mapping[str, float]
    names: tuple[str, ...]
    correlations: Float64
    held: Mapping[str, str]  # optional parameter → why it is not fitted
    rows: Int64
    predicted_ns: Float64
    scale: float  # of an ordinary residual
    outliers: Int64
    score: Score


def fit(model: CostModel, samples: Samples, options: FitOptions | None = None) -> FitResult:
    """Fit a cost model. :class:`FitError` says which parameters the samples do not determine, and what would help."""
    options = options or FitOptions()
    problem, held = _affordable(pose(model, samples, options.residual, options.start), options.known)
    problem, rough, held = _determined(problem, held, options)
    while True:
        solution = solve(problem, options.loss, rough.start, options.tolerance, rough.scale)
        jacobian = problem.jacobian(solution.point)
        undetermined, covariances = _judge(problem, solution, jacobian, options)
        rough = _Rough(problem.values(solution.point), solution.scale)
        if undetermined is not None:
            problem, held = _hold(problem, solution, undetermined, held, options.known)
        elif (name := identify.one_too_many(problem, np.sqrt(np.diag(covariances)))) is not None:
            initial = model.initial()[name]
            problem, held = problem.holding(name, initial), held | {name: "one parameter too many"}
        else:
            return _result(problem, solution, covariances, held)


@dataclass(frozen=True, slots=True)
class _Rough:
    """Where a first, rough minimisation ended."""

    start: Mapping[str, float]
    scale: float | None


def _affordable(problem: Problem, known: Mapping[str, float]) -> tuple[Problem, dict[str, str]]:
    """The problem with as many optional parameters as it has sizes for; :class:`FitError` with too few for any."""
    held: dict[str, str] = {}
    while (reason := identify.too_few_sizes(problem)) is not None:
        free = tuple(spec.name for spec in problem.free)
        name = identify.optional_of(problem, free)
        if name is None:
            problem, held = _hold_known(problem, identify.Undetermined(free, reason, "too few sizes"), held, known)
            continue
        spec = next(spec for spec in problem.free if spec.name == name)
        value = spec.initial if spec.off is None else spec.off
        problem, held = problem.holding(name, value), held | {name: "too few sizes"}
    return problem, held


def _hold_known(
    problem: Problem, undetermined: identify.Undetermined, held: dict[str, str], known: Mapping[str, float]
) -> tuple[Problem, dict[str, str]]:
    """The problem with one undetermined parameter at a profile's value; :class:`FitError` where the profile has none.

    One that the model needs stays to be fitted: with all of them from the profile, the fit would say nothing new.
    """
    name = next((name for name in reversed(undetermined.names) if name in known), None)
    if name is None or not any(spec.name != name and not spec.optional for spec in problem.free):
        also = [other for other in held if other in known]
        neither = f", and {' and '.join(also)} not told either" if also else ""
        raise FitError(f"{problem.model.name}: {undetermined.reason}{neither}; {_sources(problem)}")
    return problem.holding(name, known[name]), held | {name: f"as in the base profile ({undetermined.short})"}


def _determined(problem: Problem, held: dict[str, str], options: FitOptions) -> tuple[Problem, _Rough, dict[str, str]]:
    """The problem without what a rough look at (a part of) it already shows not to be determined."""
    start = dict(options.start)
    if (coarse := thinned(problem, COARSE_ROWS)) is not problem:
        start = coarse.values(solve(coarse, options.loss, start, max(ROUGH, options.tolerance)).point)
    while True:
        part = thinned(problem)
        solution = solve(part, options.loss, start, max(ROUGH, options.tolerance))
        undetermined = _undetermined_by_part(problem, part, solution, options)
        start = part.values(solution.point)
        if undetermined is None:
            return problem, _Rough(start, solution.scale), held
        problem, held = _hold(problem, solution, undetermined, held, options.known)


def _undetermined_by_part(
    problem: Problem, part: Problem, solution: Solution, options: FitOptions
) -> identify.Undetermined | None:
    """What a rough minimum shows not to be determined; of a thinned table also by errors, as the whole would have."""
    jacobian = part.jacobian(solution.point)
    undetermined, _ = _judge(part, solution, jacobian, None)
    if undetermined is not None or len(part) == len(problem) or not len(part.free):
        return undetermined
    covariances = covariance(part, solution, jacobian, Errors.AUTO, options.seed)
    return identify.too_uncertain(part, np.sqrt(np.diag(covariances) * len(part) / len(problem)))


def _judge(
    problem: Problem, solution: Solution, jacobian: Float64, options: FitOptions | None
) -> tuple[identify.Undetermined | None, Float64]:
    """What is not determined, else the covariance matrix.

    Bounds come first: there the Jacobian tells nothing. Errors are judged at the minimum only; without options the
    point is on the way to it.
    """
    nothing = np.empty((0, 0))
    early = identify.at_bounds(problem, solution.point) or identify.without_rank(problem, jacobian)
    if early is not None or options is None:
        return early, nothing
    covariances = covariance(problem, solution, jacobian, options.errors, options.seed)
    return identify.too_uncertain(problem, np.sqrt(np.diag(covariances))), covariances


def _hold(
    problem: Problem, solution: Solution, undetermined: identify.Undetermined, held: dict[str, str],
    known: Mapping[str, float],
) -> tuple[Problem, dict[str, str]]:  # fmt: skip
    """The problem without one optional parameter of the undetermined ones, else with one at a profile's value."""
    name = identify.optional_of(problem, undetermined.names)
    if name is None:
        return _hold_known(problem, undetermined, held, known)
    value = problem.values(solution.point)[name]
    return problem.holding(name, value), held | {name: undetermined.short}


def _sources(problem: Problem) -> str:
    return f"{len(problem)} samples from {', '.join(problem.samples.source.present())}"


def _result(problem: Problem, solution: Solution, covariances: Float64, held: dict[str, str]) -> FitResult:
    values = problem.values(solution.point)
    deviation = np.sqrt(np.diag(covariances)) if len(problem.free) else np.empty(0)
    stderr = {
        spec.name: float(error * (values[spec.name] if spec.log else 1.0))
        for spec, error in zip(problem.free, deviation, strict=True)
    }
    predicted = problem.predicted(solution.point)
    off = np.abs(solution.weights * problem.residuals(solution.point)) / solution.scale
    wrong = np.abs(predicted / problem.samples.time_ns - 1.0) > OUTLIER_SHARE
    far = np.flatnonzero(wrong & (off > OUTLIER_SCALES))
    worst = far[np.argsort(-off[far], kind="stable")]
    return FitResult(
        model=problem.model,
        values=values,
        stderr=stderr,
        names=tuple(spec.name for spec in problem.free),
        correlations=correlation(covariances) if len(problem.free) else covariances,
        held=held,
        rows=problem.rows,
        predicted_ns=predicted,
        scale=solution.scale,
        outliers=problem.rows[worst],
        score=score(predicted, problem.samples.time_ns),
    )


def score(predicted: Float64, measured: Float64) -> Score:
    """Median and 90th percentile of |predicted / measured - 1|, percent."""
    error = 100.0 * np.abs(predicted / measured - 1.0)
    median, p90 = np.quantile(error, (0.5, 0.9))
    return Score(float(median), float(p90), len(error))
