"""Hold-out scores: how well a model predicts rows that it was not fitted to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibration.fit import FitOptions, FitResult, fit, score
from calibration.solve import THINNED_ROWS, spread_evenly
from hwprofiles.fitted import Score
from replay.core.columns import Bool
from replay.core.errors import FitError
from replay.samples import Samples

RANDOM_HALF = "random half"
_TOLERANCE = 1e-6  # errors of predictions are of percents
_FEWEST = 4  # rows on either side of a split: fewer say nothing


def scores(samples: Samples, result: FitResult, options: FitOptions) -> tuple[dict[str, Score], tuple[str, ...]]:
    """Score of each split by name, and a sentence for each split that could not be scored.

    The random half and the model's own extrapolations; each refits on what remains, from the start values of the
    fit (not from its answer, which has seen the rows held out).
    """
    used = samples.take(result.rows)
    columns = {name: used.size(name) for name in dict.fromkeys((*result.model.needs, *used.sizes))}
    splits = {RANDOM_HALF: random_half(len(used), options.seed)}
    splits |= {holdout.name: holdout.held_out(columns) for holdout in result.model.holdouts}
    found: dict[str, Score] = {}
    notes: list[str] = []
    for name, held_out in splits.items():
        try:
            found[name] = _score(used, held_out, result, options)
        except FitError as error:
            notes.append(f"no score for {name}: {error}")
    return found, tuple(notes)


def random_half(n: int, seed: int) -> Bool:
    """Half of n rows, drawn without replacement; the same for the same seed."""
    held_out = np.zeros(n, dtype=bool)
    held_out[np.random.default_rng(seed).permutation(n)[: n // 2]] = True
    return held_out


def _score(used: Samples, held_out: Bool, result: FitResult, options: FitOptions) -> Score:
    """Fit the rows that are kept (of a large table a part: more rows move no prediction), predict the others."""
    model = result.model
    if min(held_out.sum(), (~held_out).sum()) < _FEWEST:
        raise FitError(f"{int(held_out.sum())} of {len(used)} rows would be held out")
    seen = used.take(~held_out)
    if len(seen) > THINNED_ROWS:
        seen = seen.take(spread_evenly(seen.time_ns, THINNED_ROWS))
    kept = fit(model, seen, replace(options, tolerance=_TOLERANCE))
    rest = used.take(held_out)
    columns = {name: rest.size(name) for name in dict.fromkeys((*model.needs, *rest.sizes))}
    return score(np.asarray(model.predict(kept.values, columns)), rest.time_ns)
