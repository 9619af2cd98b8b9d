"""Which changes are inside the spread of repeated ops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Float64, Int64, freeze
from replay.program.template_ids import row_ids
from replay.report.diff.unit_table import UnitTable

FEWEST = 4  # repeats that say something of a spread
SIGMAS = 2.0
NORMAL_MAD = 1.4826  # standard deviation of a normal / its median absolute deviation


@dataclass(frozen=True, slots=True)
class Noise:
    """Per unit: is the change of its template on its rank inside the spread; and that relative spread, NaN unknown."""

    noise: Bool
    spread: Float64

    def __post_init__(self) -> None:
        freeze(self.noise)
        freeze(self.spread)


def find_noise(table: UnitTable) -> Noise:
    """Units that both steps have, grouped by template and rank.

    With r = after / before - 1 of each repeat, sigma is its robust deviation (1.48 x MAD, of all units of the same
    sort where a group has fewer than four). A group is noise where |sum of changes| <= 2 sigma sqrt(sum before^2): what
    independent repeats would add up to. An op that only one step has is never noise.
    """
    usable = table.in_a & table.in_b & (table.before_ns > 0)
    relative = np.where(usable, table.change_ns / np.maximum(table.before_ns, 1), 0.0)
    group = row_ids(table.template, table.rank)
    count = int(group.max(initial=-1)) + 1
    sigma = _by_group(relative, group, usable, count)
    pooled = _by_group(relative, table.category, usable, int(table.category.max(initial=-1)) + 1)[table.category]
    spread = np.where(np.isnan(sigma[group]), pooled, sigma[group])
    change = np.bincount(group[usable], weights=table.change_ns[usable], minlength=count)
    squares = np.bincount(group[usable], weights=table.before_ns[usable].astype(np.float64) ** 2, minlength=count)
    known = usable & ~np.isnan(spread)
    limit = SIGMAS * np.where(known, spread, 0.0) * np.sqrt(squares)[group]
    return Noise(known & (np.abs(change[group]) <= limit), np.where(usable, spread, np.nan))


def _by_group(values: Float64, group: Int64, usable: Bool, count: int) -> Float64:
    """Robust standard deviation of the usable values of every group; NaN where there are fewer than four."""
    sigma = np.full(count, np.nan)
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(group[rows], kind="stable")]
    found, begins = np.unique(group[rows], return_index=True)
    for number, part in zip(found.tolist(), np.split(values[rows], begins)[1:], strict=True):
        if len(part) >= FEWEST:
            sigma[number] = NORMAL_MAD * float(np.median(np.abs(part - np.median(part))))
    return sigma
