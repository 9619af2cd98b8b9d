"""calibrate: every cost model fitted to every group of samples it explains, as a hardware profile.

What cannot be fitted is refused with a sentence and left out of the profile; the rest stands. The same samples and
options always give the same profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from calibration.correction import correction_of
from calibration.disagreement import Run, disagreements
from calibration.fit import FitOptions, FitResult, fit
from calibration.groups import groups
from calibration.holdout import scores
from calibration.models import cost_models
from calibration.prediction import Predicted
from calibration.problem import sizes_of
from calibration.profile import Target, as_fitted, profile_of, start_values
from hwprofiles.fitted import Fitted
from hwprofiles.schema import HardwareProfile
from replay.collectives._network import best_of, is_usual
from replay.core.errors import FitError
from replay.cost_model import CostModel
from replay.costs.correction import to_coefficients
from replay.samples import Samples

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """One fit that stands: the rows it was made of, what it found, and what a profile keeps of it."""

    samples: Samples
    result: FitResult
    notes: tuple[str, ...]
    runs: tuple[Run, ...]  # that contradict each other
    fitted: Fitted


@dataclass(frozen=True, slots=True)
class Refusal:
    """A group of samples that a model could not be fitted to."""

    model: str
    key: Mapping[str, str]
    samples: int
    reason: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """A profile, the fits, what was refused, and what was noticed on the way.

    Of rival models of the same samples the profile keeps the best and the usual one.
    """

    profile: HardwareProfile
    fits: tuple[Explained, ...]
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...] = ()
    unexplained: Mapping[str, int] = field(default_factory=dict)  # op → samples that no model takes
    predicted: tuple[Predicted, ...] = ()  # of samples that were not fitted

    def best(self) -> tuple[Explained, ...]:
        """One fit for each group of samples."""
        return best_fits(self.fits)


def best_fits(fits: Sequence[Explained]) -> tuple[Explained, ...]:
    """Of several models of the same samples the best (:func:`best_of`)."""
    rivals: dict[tuple[tuple[str, str], ...], list[Explained]] = {}
    for one in fits:
        rivals.setdefault(tuple(one.fitted.key.items()), []).append(one)
    best = [best_of([one.fitted for one in group]) for group in rivals.values()]
    return tuple(one for one in fits if any(one.fitted is chosen for chosen in best))


def calibrate(
    samples: Samples, target: Target, options: FitOptions | None = None, progress: Progress = lambda _stage: None
) -> Calibration:
    """Fit all models to all groups. :class:`FitError` where nothing could be fitted."""
    options = options or FitOptions()
    fits: list[Explained] = []
    refusals: list[Refusal] = []
    taken: set[str] = set()
    for model, key, rows in _work(samples):
        progress(f"fitting {model.name} {' '.join(key.values())}")
        taken |= set(rows.op.present())
        try:
            fits.append(explain(model, key, rows, target, options))
        except FitError as error:
            refusals.append(Refusal(model.name, key, len(rows), str(error)))
    unexplained = {op: int(samples.op.equal(op).sum()) for op in samples.op.present() if op not in taken}
    if not fits:
        reasons = [refusal.reason for refusal in refusals] or [
            f"no cost model takes samples of {', '.join(map(_needed, unexplained)) or 'nothing'}"
        ]
        raise FitError("nothing could be fitted: " + "; ".join(reasons[:3]))
    best = best_fits(fits)
    kept = [one.fitted for one in fits if one in best or is_usual(one.fitted)]
    return Calibration(profile_of(target, kept), tuple(fits), tuple(refusals), samples.notes, unexplained)


def explain(model: CostModel, key: Mapping[str, str], rows: Samples, target: Target, options: FitOptions) -> Explained:
    """One fit with its scores. :class:`FitError` where the rows do not determine it."""
    known = start_values(model, target.base, key.get("dtype", ""))
    mine = replace(options, start=known | dict(options.start), known=known)
    result = fit(model, rows, mine)
    held_out = scores(rows, result, mine)
    every = {"fit": result.score, **held_out.scores}
    fitted = replace(as_fitted(key, rows, result, every, target.base), learned=held_out.learned)
    used = rows.take(result.rows)
    correction = correction_of(model, result.values, sizes_of(model, used), used.time_ns) if options.learned else None
    if correction is not None:
        fitted = replace(fitted, coefficients=to_coefficients(correction))
    return Explained(rows, result, held_out.notes, disagreements(rows, result, mine), fitted)


def _needed(op: str) -> str:
    """An op and what its models need to know of each sample."""
    needs = " or ".join(dict.fromkeys(f"{', '.join(model.needs)}" for model in cost_models() if op in model.ops))
    return f"{op} without {needs}" if needs else f"{op} (an unknown op)"


def _work(samples: Samples) -> Iterable[tuple[CostModel, dict[str, str], Samples]]:
    return ((model, key, rows) for model in cost_models() for key, rows in groups(model, samples))
