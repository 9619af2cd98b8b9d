"""Which Ascend device a profile is of: named, or told by the counters of its kernel table.

A kernel table counts the time of the cores that a kernel was spread over, and their cycles: clock = cycles / (time ·
blocks). The share of all cores' cycles that it prints gives their number: cores = time · blocks / (share · duration).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import hwprofiles
from hwprofiles import HardwareProfile
from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.trace import Trace

_SPREAD = 0.02  # counters that disagree by more tell nothing
_WHOLE = 0.05  # a number of cores this near to a whole one is that


@dataclass(frozen=True, slots=True)
class CubeDevice:
    """What is known of the device, null what is not. ``profile`` gives peaks and memory; ``sentence`` says it all."""

    cores: int | None
    clock_mhz: float | None
    profile: str | None
    alike: tuple[str, ...]  # shipped profiles with these cores and clock
    sentence: str


def cube_device(trace: Trace, named: HardwareProfile | None) -> tuple[CubeDevice, HardwareProfile | None]:
    """The device of a trace and the profile that its costs are taken from, the ``named`` one first."""
    cores, clock_hz = counted(trace)
    alike = hwprofiles.alike(cores, clock_hz) if cores is not None and clock_hz is not None else ()
    profile = named or (alike[0] if alike else None)
    used = _whole(profile.get("cores")) if profile is not None else None
    clock = clock_hz or (profile.get("clock_hz") if profile is not None else None)
    device = CubeDevice(
        cores or used, None if clock is None else clock / 1e6, None if profile is None else profile.name,
        tuple(other.name for other in alike), _sentence(trace, (cores, clock_hz), named, alike),
    )  # fmt: skip
    return device, profile


def counted(trace: Trace) -> tuple[int | None, float | None]:
    """Number of cube cores and their clock by the counters of the kernel table; ``None`` where they do not tell."""
    details = trace.details
    if details is None or details.counters is None:
        return None, None
    counters = details.counters
    used = (counters.cube_ns > 0) & (counters.cube_cycles > 0) & (counters.blocks > 0)
    used &= ~np.isin(np.array(details.core), ("AI_VECTOR_CORE", "MIX_AIV", "AI_CPU"))
    work = counters.cube_ns[used].astype(np.float64) * counters.blocks[used]
    clock = _agreed(counters.cube_cycles[used] / np.maximum(work, 1.0) * NS_PER_S)
    share = details.cube_utilization_pct[used] / 100.0 * trace.dur_ns[details.event[used]]
    told = np.nan_to_num(share) > 0
    return _whole(_agreed(work[told] / share[told])), clock


def _agreed(values: Float64) -> float | None:
    """The median, where most values agree with it."""
    if not len(values):
        return None
    middle = float(np.median(values))
    return middle if float(np.median(np.abs(values - middle))) <= _SPREAD * middle else None


def _whole(value: float | None) -> int | None:
    return None if value is None or abs(value - round(value)) > _WHOLE or round(value) < 1 else round(value)


def _sentence(
    trace: Trace, own: tuple[int | None, float | None], named: HardwareProfile | None,
    alike: tuple[HardwareProfile, ...],
) -> str:  # fmt: skip
    cores, clock_hz = own
    parts = []
    if cores is not None and clock_hz is not None:
        parts.append(f"{cores} cube cores at {clock_hz / 1e6:.0f} MHz by the counters of the kernel table")
    elif clock_hz is not None:
        parts.append(
            f"cube cores at {clock_hz / 1e6:.0f} MHz by the counters of the kernel table, their number not told"
        )
    if named is not None:
        parts.append(f"costs by the profile {named.name}")
        if cores is not None and (told := named.get("cores")) is not None and told != cores:
            parts.append(f"which has {told:g} cores, not {cores}: is it the device that was measured?")
    elif alike:
        parts.append(f"costs by the profile {alike[0].name}, which has as many ({_names(alike)})")
    else:
        missing = "peak, memory bandwidth" if cores is not None else "cores, peak, memory bandwidth"
        least = _most_blocks(trace)
        seen = f" (kernels ran on up to {least} cores)" if least and cores is None else ""
        parts.append(f"{missing} not known{seen}: name the device with --hardware PROFILE")
    return "; ".join(parts)


def _names(alike: tuple[HardwareProfile, ...]) -> str:
    return ", ".join(profile.name for profile in alike)


def _most_blocks(trace: Trace) -> int:
    """Most cores that a kernel of the cube cores was spread over."""
    details = trace.details
    if details is None or details.counters is None or not len(details):
        return 0
    on_cube = np.isin(np.array(details.core), ("AI_CORE", "MIX_AIC"))
    return int(np.where(on_cube, details.counters.blocks, 0).max())
