"""A link: what one rank can send to its peers.

Communication libraries move small messages with protocols of low latency and low bandwidth (NCCL: LL, LL128) and large
ones with the opposite (Simple), and take whichever is faster. The time of a link is therefore the least over its
protocols of latency + bytes / bandwidth, joined without a kink.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.core.units import NS_PER_S

Sizes = npt.ArrayLike
"""A number or an array of bytes."""

SHARPNESS = 4.0
"""Exponent of the smooth minimum: two protocols that cost the same cost 2^(-1/4) = 0.84 of it together."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way to move a message: latency of a message, and bandwidth of one rank in one direction."""

    bytes_per_s: float
    latency_ns: float


@dataclass(frozen=True, slots=True)
class Link:
    """Latency of one message and bandwidth of one rank, one direction; ``floor_ns`` is paid once whatever is sent.

    ``protocols`` are what else the link may use.
    """

    bytes_per_s: float
    latency_ns: float = 0.0
    floor_ns: float = 0.0
    protocols: tuple[Protocol, ...] = ()

    @property
    def ways(self) -> tuple[Protocol, ...]:
        """All protocols of the link, its own first."""
        return (Protocol(self.bytes_per_s, self.latency_ns), *self.protocols)

    def time_ns(self, nbytes: Sizes, messages: npt.ArrayLike = 1.0) -> Float64:
        """floor + min over protocols of (messages · latency + nbytes / bandwidth); 0 where nothing is sent."""
        size, count = np.broadcast_arrays(np.asarray(nbytes, np.float64), np.asarray(messages, np.float64))
        times = np.stack([count * way.latency_ns + size * NS_PER_S / way.bytes_per_s for way in self.ways])
        return np.where(size > 0, self.floor_ns + smooth_minimum(times), 0.0)


def smooth_minimum(times: Float64) -> Float64:
    """(sum t^-q)^(-1/q) over the first axis, q = SHARPNESS: the minimum where one is clearly least."""
    least = times.min(axis=0)
    if len(times) == 1:
        return np.asarray(least)
    ratio = times / np.where(least > 0, least, 1.0)
    total = (np.where(ratio > 0, ratio, 1.0) ** -SHARPNESS).sum(axis=0)
    return np.asarray(least * total ** (-1.0 / SHARPNESS))
