"""Roofline: an op is limited by arithmetic or by memory traffic, whichever takes longer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.core.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Device:
    """What an op can use: arithmetic rate at its data type, memory bandwidth, and the cost of a kernel with no work."""

    flop_per_s: float
    bytes_per_s: float
    floor_ns: float = 0.0


def time_ns(flops: npt.ArrayLike, nbytes: npt.ArrayLike, device: Device) -> Float64:
    """floor + max(flops / peak, bytes / bandwidth), in ns (Williams et al. 2009, with a launch floor)."""
    compute = np.asarray(flops, dtype=np.float64) / device.flop_per_s
    memory = np.asarray(nbytes, dtype=np.float64) / device.bytes_per_s
    return np.asarray(device.floor_ns + NS_PER_S * np.maximum(compute, memory))
