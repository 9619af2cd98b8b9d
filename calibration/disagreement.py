"""Disagreement: runs in one fit that contradict each other by more than the model's own error.

Two logs of the same collective may come from different fabrics or library versions; one curve through both describes
neither. A run is one source file and one number of nodes; it disagrees where its median residual is far from that of
the others, in spreads of residuals inside runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibration.fit import FitResult
from replay.core.columns import Float64
from replay.samples import Samples

FACTOR = 1.25
"""Runs closer than this are one machine: tuning, placement and the day make that much."""

_SPREADS = 3.0
_FEWEST = 5  # rows of a run; fewer tell no median


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of one source, and measured over model in the median."""

    name: str
    software: str
    rows: int
    ratio: float


def disagreements(samples: Samples, result: FitResult) -> tuple[Run, ...]:
    """Runs of a fit, slowest first, where they contradict each other; empty where they agree."""
    used = samples.take(result.rows)
    residual = np.log(used.time_ns / result.predicted_ns)
    runs = _runs(used, residual)
    if len(runs) < 2:
        return ()
    medians = np.array([np.median(rows) for _, _, rows in runs])
    inside = float(np.median([np.median(np.abs(rows - np.median(rows))) for _, _, rows in runs])) * 1.4826
    if medians.max() - medians.min() < max(np.log(FACTOR), _SPREADS * inside):
        return ()
    order = np.argsort(-medians, kind="stable")
    return tuple(Run(runs[i][0], runs[i][1], len(runs[i][2]), float(np.exp(medians[i]))) for i in order)


def _runs(used: Samples, residual: Float64) -> list[tuple[str, str, Float64]]:
    """(name, software, residuals) of each source and number of nodes with enough rows."""
    nodes = used.size("nodes")
    found = []
    for source in used.source.present():
        mine = used.source.equal(source)
        for number in np.unique(nodes[mine]):
            rows = mine & ((nodes == number) | (np.isnan(nodes) & np.isnan(number)))
            if rows.sum() >= _FEWEST:
                span = "" if np.isnan(number) else f" ({number:g} node{'s' if number != 1 else ''})"
                found.append((source + span, used.software[int(np.argmax(rows))], residual[rows]))
    return found
