"""Ops that only move data: casts, permutations, activations, norms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.costs.roofline import Device
from replay.costs.roofline import time_ns as roofline_ns


def time_ns(read_nbytes: npt.ArrayLike, written_nbytes: npt.ArrayLike, device: Device) -> Float64:
    """floor + (read + written) / bandwidth, ns."""
    moved = np.asarray(read_nbytes, np.float64) + np.asarray(written_nbytes, np.float64)
    return roofline_ns(0.0, moved, device)
