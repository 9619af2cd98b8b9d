"""Which Ascend device a profile is of: named, or told by the counters of its kernel table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import hwprofiles
from hwprofiles import HardwareProfile
from parsers.ascend.cores import CUBE_CORES, Counted, cores_and_clock
from replay.trace import Trace


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
    told = (None, None) if profile is None else (profile.get("cores"), profile.get("clock_hz"))
    used, clock = cores or told[0], clock_hz or told[1]
    device = CubeDevice(
        cores=None if used is None else round(used),
        clock_mhz=None if clock is None else clock / 1e6,
        profile=None if profile is None else profile.name,
        alike=tuple(other.name for other in alike),
        sentence=_sentence(trace, (cores, clock_hz), named, alike),
    )
    return device, profile


def counted(trace: Trace) -> tuple[int | None, float | None]:
    """Number of cube cores and their clock by the counters of the kernel table; ``None`` where they do not tell."""
    details = trace.details
    if details is None or details.counters is None:
        return None, None
    counters = details.counters
    on_cube = np.flatnonzero(np.isin(np.array(details.core), CUBE_CORES))
    return cores_and_clock(
        Counted(
            trace.dur_ns[details.event[on_cube]], details.cube_utilization_pct[on_cube], counters.blocks[on_cube],
            counters.cube_ns[on_cube], counters.cube_cycles[on_cube],
        )
    )  # fmt: skip


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
        others = f", as {' and '.join(other.name for other in alike[1:])} does too" if len(alike) > 1 else ""
        parts.append(f"costs by the profile {alike[0].name}, which has as many at this clock{others}")
    else:
        missing = "peak, memory bandwidth" if cores is not None else "cores, peak, memory bandwidth"
        least = _most_blocks(trace)
        seen = f" (kernels ran on up to {least} cores)" if least and cores is None else ""
        parts.append(f"{missing} not known{seen}: name the device with --hardware PROFILE")
    return "; ".join(parts)


def _most_blocks(trace: Trace) -> int:
    """Most cores that a kernel of the cube cores was spread over."""
    details = trace.details
    if details is None or details.counters is None or not len(details):
        return 0
    on_cube = np.isin(np.array(details.core), CUBE_CORES)
    return int(np.where(on_cube, details.counters.blocks, 0).max())
