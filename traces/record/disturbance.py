"""One thing changed in an otherwise equal run, so that a what-if can be checked against the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ALL_RANKS = -1


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What is changed; the default changes nothing.

    ``kernel`` (its exact name) takes ``kernel_factor`` times as long; messages over links of the kind ``link`` (``tp``,
    ``ep``, ``dp``, ``pp``) need ``link_factor`` times as long for their bytes, the latency stays; the host of
    ``stall_rank`` sleeps ``stall_ms`` at the begin of every step; kernels (not transfers) of ``slow_rank`` take
    ``slow_factor`` times as long.
    """

    kernel: str = ""
    kernel_factor: float = 1.0
    link: str = ""
    link_factor: float = 1.0
    stall_rank: int = ALL_RANKS
    stall_ms: float = 0.0
    slow_rank: int = ALL_RANKS
    slow_factor: float = 1.0

    def kernel_ns(self, name: str, rank: int, duration_ns: int) -> int:
        """Duration of a kernel on a rank."""
        factor = self.kernel_factor if name == self.kernel else 1.0
        return round(duration_ns * factor * (self.slow_factor if rank == self.slow_rank else 1.0))

    def slowness(self, link: str) -> float:
        """Factor on the time that bytes need over links of that kind."""
        return self.link_factor if link == self.link else 1.0

    def stall_s(self, rank: int) -> float:
        """How long the host of a rank sleeps at the begin of a step."""
        return self.stall_ms / 1000 if self.stall_rank in (rank, ALL_RANKS) else 0.0

    def to_json(self) -> dict[str, Any]:
        """What differs from no disturbance, as written to ``run.json``."""
        parts: dict[str, Any] = {}
        if self.kernel:
            parts |= {"kernel": self.kernel, "kernel_factor": self.kernel_factor}
        if self.link:
            parts |= {"link": self.link, "link_factor": self.link_factor}
        if self.stall_ms:
            parts |= {"stall_ms": self.stall_ms, "stall_rank": self.stall_rank}
        if self.slow_factor != 1.0:
            parts |= {"slow_rank": self.slow_rank, "slow_factor": self.slow_factor}
        return parts


NONE = Disturbance()
