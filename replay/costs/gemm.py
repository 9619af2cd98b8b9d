"""Matrix multiplication C (m, n) = A (m, k) · B (k, n)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.costs.roofline import Device
from replay.costs.roofline import time_ns as roofline_ns


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes per element read and written; ``accumulates``: C is read, added to and written back (gradients)."""

    input_nbytes: float = 2.0
    output_nbytes: float = 2.0
    accumulates: bool = False


def flops(m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> Float64:
    """2 · m · n · k."""
    return 2.0 * np.asarray(m, np.float64) * np.asarray(n, np.float64) * np.asarray(k, np.float64)


def traffic_nbytes(m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, precision: Precision) -> Float64:
    """in · (m·k + k·n) + out · m·n, the last twice where it accumulates: every operand moved once."""
    rows, columns, inner = (np.asarray(size, np.float64) for size in (m, n, k))
    results = rows * columns * (2.0 if precision.accumulates else 1.0)
    return np.asarray(precision.input_nbytes * inner * (rows + columns) + precision.output_nbytes * results)


def time_ns(m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, precision: Precision, device: Device) -> Float64:
    """Roofline time of one GEMM, ns."""
    return roofline_ns(flops(m, n, k), traffic_nbytes(m, n, k, precision), device)
