"""Disagreement: runs in one fit that contradict each other.

Two logs of the same collective may come from different fabrics or library versions; one curve through both describes
neither. A run is one source file and one number of nodes. Runs contradict each other where each alone is described well
and all together are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from calibration.fit import FitOptions, FitResult, fit
from replay.core.columns import Bool
from replay.core.errors import FitError
from replay.samples import Samples

WORSE = 2.5
"""Together worse than alone by this factor is a contradiction: a shared model always costs something."""

_HARMLESS_PCT = 5.0  # a median error of all together that is small enough whatever it would be alone
_TOLERANCE = 1e-6
_FEWEST = 8  # rows of a run; fewer are described well by any model


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of one source: measured over the common model in the median, and the median errors of both fits."""

    name: str
    software: str
    rows: int
    ratio: float
    alone_pct: float
    together_pct: float


def disagreements(samples: Samples, result: FitResult, options: FitOptions) -> tuple[Run, ...]:
    """Runs of a fit, the slowest first, where they contradict each other; empty where they agree."""
    if result.score.median_pct < _HARMLESS_PCT:
        return ()
    used = samples.take(result.rows)
    masks = list(_runs(used))
    runs = [found for mask in masks if (found := _alone(used, mask, result, options)) is not None]
    if len(masks) < 2 or len(runs) < len(masks):
        return ()
    together, alone = (np.average([getattr(run, name) for run in runs], weights=[run.rows for run in runs])
                       for name in ("together_pct", "alone_pct"))  # fmt: skip
    return tuple(sorted(runs, key=lambda run: -run.ratio)) if together > WORSE * alone else ()


def _alone(used: Samples, mask: Bool, result: FitResult, options: FitOptions) -> Run | None:
    """A run with a fit of its own, ``None`` where its rows determine none."""
    rows = used.take(mask)
    try:
        own = fit(result.model, rows, replace(options, tolerance=_TOLERANCE))
    except FitError:
        return None
    ratio = rows.time_ns / result.predicted_ns[mask]
    nodes = rows.size("nodes")[0]
    span = "" if np.isnan(nodes) else f" ({nodes:g} node{'s' if nodes != 1 else ''})"
    together = float(np.median(100.0 * np.abs(1.0 / ratio - 1.0)))
    name = rows.source[0] + span
    return Run(name, rows.software[0], len(rows), float(np.median(ratio)), own.score.median_pct, together)


def _runs(used: Samples) -> Iterator[Bool]:
    """Rows of each source and number of nodes with enough rows."""
    nodes = np.nan_to_num(used.size("nodes"))
    for source in used.source.present():
        mine = used.source.equal(source)
        for number in np.unique(nodes[mine]):
            rows = mine & (nodes == number)
            if rows.sum() >= _FEWEST:
                yield rows
