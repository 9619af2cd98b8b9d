"""Bytes per element of matrix multiplications, by the name of their data type."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Float64
from replay.core.dtypes import Elements, matrix_elements
from replay.samples import Words


def operand_sizes(dtype: Words) -> dict[str, Float64]:
    """Bytes per element of both inputs and of the output of each row's matrix multiplication, and its scales."""
    unknown = Elements(np.nan, np.nan, np.nan)
    of_words = [(matrix_elements(name) or unknown).sizes() for name in dtype.names]
    return {size: np.array([sizes[size] for sizes in of_words], np.float64)[dtype.codes] for size in unknown.sizes()}
