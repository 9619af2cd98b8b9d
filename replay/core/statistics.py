"""Statistics that templates and reports share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64

TRIM = 0.1


def trimmed_mean(values: Sequence[int] | npt.NDArray[Any]) -> Float64:
    """Mean over axis 0 without the lowest and the highest tenth of the rows (rounded down to whole rows).

    Trimmed means add up where medians do not, and a disturbed instance is left out (R12).
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=0)
    cut = int(TRIM * len(ordered))
    return np.asarray(ordered[cut : len(ordered) - cut].mean(axis=0))
