"""Groups: the rows of a table that one fit explains, by the columns that a cost model fits apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibration.problem import usable
from replay.cost_model import CostModel
from replay.samples import WORD_COLUMNS, Samples, Words


def groups(model: CostModel, samples: Samples) -> Iterator[tuple[dict[str, str], Samples]]:
    """(key, rows) for each distinct combination of ``model.by``, in order of first appearance.

    Rows that lack a size or a word of the key are in no group.
    """
    rows = usable(model, samples)
    chosen = samples.take(rows)
    columns = [labels(chosen, name) for name in model.by]
    if not len(chosen) or not columns:
        return
    codes = np.stack([column.codes for column in columns], axis=1)
    distinct, first, index = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    for group in np.argsort(first, kind="stable"):
        words = (column.names[code] for column, code in zip(columns, distinct[group], strict=True))
        key = dict(zip(model.by, words, strict=True))
        if all(key.values()) or {name for name, word in key.items() if not word} <= {"variant", "software"}:
            yield key, chosen.take(np.asarray(index.reshape(-1) == group))


def labels(samples: Samples, name: str) -> Words:
    """A column by name as words: one of the table's words, the tier of links, or a size."""
    if name == "tier":
        return samples.tier
    if name in WORD_COLUMNS:
        found: Words = getattr(samples, name)
        return found
    return Words.of("" if np.isnan(value) else f"{value:g}" for value in samples.size(name))
