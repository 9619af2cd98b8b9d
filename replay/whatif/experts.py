"""``--experts balanced|trace|zipf:A|FILE``: how the router loads the experts.

The busiest rank decides every exchange, so what matters is the maximum over ranks, taken layer by layer: the mean of
maxima, which is more than the maximum of means.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import orjson

from replay.core.columns import Float64
from replay.core.errors import RefusedError, TraceError
from replay.program.loads import Loads

LEVEL = "program"
OPTION = "--experts"
_ZIPF = "zipf:"


def read_loads(text: str, experts: int, layers: int = 1) -> Loads | None:
    """Loads that the option's value names; ``None`` for ``trace``, which keeps what was measured.

    A file holds counts (or shares) per expert: a JSON list, a JSON list of lists or CSV rows, one row a layer.
    """
    if text == "trace":
        return None
    if text == "balanced":
        return Loads.balanced(experts)
    if text.startswith(_ZIPF):
        return zipf(_exponent(text), experts, layers)
    return _from_counts(_read_counts(Path(text)), experts, text)


def zipf(exponent: float, experts: int, layers: int) -> Loads:
    """Share of the r-th most popular expert proportional to r^-A, experts in a random order in every layer.

    The order is drawn with the layer's number as seed, so equal questions get equal answers.
    """
    popularity = np.arange(1, experts + 1, dtype=np.float64) ** -exponent
    popularity /= popularity.sum()
    rows = [np.random.default_rng(layer).permutation(popularity) for layer in range(max(layers, 1))]
    return Loads(np.stack(rows), f"Zipf exponent {exponent:g}, popular experts placed at random")


def _exponent(text: str) -> float:
    try:
        exponent = float(text.removeprefix(_ZIPF))
    except ValueError:
        exponent = -1.0
    if not 0.0 <= exponent < float("inf"):
        raise RefusedError(f"--experts {text}: the exponent must be a number of 0 or more, as in zipf:1.2")
    return exponent


def _read_counts(path: Path) -> Float64:
    """Rows of counts from a JSON or CSV file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(
            f"--experts {path}: neither balanced, trace, zipf:A nor a readable file ({error.strerror})"
        ) from None
    try:
        if path.suffix == ".json":
            return np.atleast_2d(np.array(orjson.loads(content), dtype=np.float64))
        rows = [row for row in csv.reader(content.decode("utf-8").splitlines()) if row]
        return np.array([[float(cell) for cell in row] for row in rows], dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise TraceError(f"{path}: is not rows of numbers of one length ({error})") from None


def _from_counts(counts: Float64, experts: int, where: str) -> Loads:
    if counts.ndim != 2 or counts.shape[1] != experts:
        raise TraceError(f"{where}: has {counts.shape[-1]} counts a row, but the model has {experts} experts")
    totals = counts.sum(axis=1, keepdims=True)
    if not np.isfinite(counts).all() or (counts < 0).any() or (totals <= 0).any():
        raise TraceError(f"{where}: counts must be 0 or more, with at least one token in every row")
    return Loads(counts / totals, f"counts in {Path(where).name}")
