"""Hold-out scores: how well a model predicts rows that it was not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from calibration.correction import correction_of
from calibration.fit import FitOptions, FitResult, fit, score
from calibration.problem import sizes_of
from calibration.solve import THINNED_ROWS, spread_evenly
from hwprofiles.fitted import Score
from replay.core.columns import Bool
from replay.core.errors import FitError
from replay.cost_model import CostModel
from replay.costs.correction import factor
from replay.samples import Samples

RANDOM_HALF = "random half"
_TOLERANCE = 1e-6  # errors of predictions are of percents
_FEWEST = 4  # rows on either side of a split: fewer say nothing


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Score of each split by name, without and with the learned correction; a sentence for each that has none."""

    scores: Mapping[str, Score]
    learned: Mapping[str, Score]
    notes: tuple[str, ...]


def scores(samples: Samples, result: FitResult, options: FitOptions) -> HeldOut:
    """The random half and the model's own extrapolations.

    Each refits on what remains, from the start values of the fit (not from its answer, which has seen the rows held
    out). A learned correction is always scored apart.
    """
    used = samples.take(result.rows)
    found: dict[str, Score] = {}
    learned: dict[str, Score] = {}
    notes: list[str] = []
    for name, held_out in splits(result.model, used, options.seed).items():
        try:
            found[name], corrected = _score(used, held_out, result, options)
        except FitError as error:
            notes.append(f"no score for {name}: {error}")
            continue
        if corrected is not None:
            learned[name] = corrected
    return HeldOut(found, learned, tuple(notes))


def splits(model: CostModel, samples: Samples, seed: int) -> dict[str, Bool]:
    """Rows to hold out, by name of the split: a random half, and the model's own extrapolations."""
    columns = sizes_of(model, samples)
    extrapolations = {holdout.name: holdout.held_out(columns) for holdout in model.holdouts}
    return {RANDOM_HALF: random_half(len(samples), seed), **extrapolations}


def random_half(n: int, seed: int) -> Bool:
    """Half of n rows, drawn without replacement; the same for the same seed."""
    held_out = np.zeros(n, dtype=bool)
    held_out[np.random.default_rng(seed).permutation(n)[: n // 2]] = True
    return held_out


def _score(used: Samples, held_out: Bool, result: FitResult, options: FitOptions) -> tuple[Score, Score | None]:
    """Fit the rows that are kept (of a large table a part: more rows move no prediction), predict the others."""
    model = result.model
    if min(held_out.sum(), (~held_out).sum()) < _FEWEST:
        raise FitError(f"{int(held_out.sum())} of {len(used)} rows would be held out")
    seen, rest = used.take(~held_out), used.take(held_out)
    few = seen.take(spread_evenly(seen.time_ns, THINNED_ROWS)) if len(seen) > THINNED_ROWS else seen
    kept = fit(model, few, replace(options, tolerance=_TOLERANCE))
    columns = sizes_of(model, rest)
    predicted = np.asarray(model.predict(kept.values, columns))
    plain = score(predicted, rest.time_ns)
    correction = correction_of(model, kept.values, sizes_of(model, seen), seen.time_ns) if options.learned else None
    return plain, None if correction is None else score(predicted * factor(correction, columns), rest.time_ns)
