"""A link: what one rank can send to its peers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.core.units import NS_PER_S

Sizes = npt.ArrayLike
"""A number or an array of bytes."""


@dataclass(frozen=True, slots=True)
class Link:
    """Latency of one message and bandwidth of one rank, one direction."""

    bytes_per_s: float
    latency_ns: float = 0.0

    def time_ns(self, nbytes: Sizes, messages: float = 1.0) -> Float64:
        """messages · latency + nbytes / bandwidth; 0 where nothing is sent."""
        size = np.asarray(nbytes, dtype=np.float64)
        return np.where(size > 0, messages * self.latency_ns + size * NS_PER_S / self.bytes_per_s, 0.0)
