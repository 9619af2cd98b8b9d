"""Topology: the tiers of links between devices, from the inside out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tier:
    """Links that connect ``devices`` devices (``None``: all there are).

    ``bytes_per_s`` and ``latency_ns`` are of one device, one direction, ``None`` where the profile does not say.
    """

    name: str
    devices: int | None
    bytes_per_s: float | None
    latency_ns: float | None


@dataclass(frozen=True, slots=True)
class Topology:
    """Tiers from the innermost outwards, and the network cards a device has to itself (0.5: two devices share one)."""

    tiers: tuple[Tier, ...]
    nics_per_device: float | None = None
