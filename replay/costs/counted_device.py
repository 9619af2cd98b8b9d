"""A profile to start from where samples name no device: the cores and the clock that counters beside them tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import hwprofiles
from hwprofiles import HardwareProfile, Parameter
from replay.core.evidence import Grade
from replay.costs.ascend_cube import CUBES, SIDE
from replay.samples import Samples

_RATES = (
    ("bf16_flop_per_s", "bf16", Grade.DATASHEET),
    ("tf32_flop_per_s", "tf32", Grade.ASSUMED),  # no document prints these two
    ("fp32_flop_per_s", "fp32", Grade.ASSUMED),
)
_SOURCE = "counters of the kernel table"


def counted_device(samples: Samples) -> HardwareProfile | None:
    """The shipped profile with as many cores at this clock, else one of nothing but cubes; ``None`` without counters.

    It claims no device's name: several have the same cores.
    """
    known = np.isfinite(samples.size("cores")) & np.isfinite(samples.size("clock_hz"))
    if not known.any():
        return None
    cores, clock = (float(np.median(samples.size(name)[known])) for name in ("cores", "clock_hz"))
    title = f"Ascend, {cores:.0f} cube cores at {clock / 1e6:.0f} MHz"
    alike = hwprofiles.alike(cores, clock)
    if alike:
        return replace(alike[0], title=f"{title}: as {' and '.join(profile.name for profile in alike)}", devices=())
    measured = {
        "cores": Parameter(cores, "1", Grade.MEASURED, _SOURCE),
        "clock_hz": Parameter(clock, "Hz", Grade.MEASURED, _SOURCE),
    }
    rates = {
        name: Parameter(CUBES[dtype].peak_flop_per_s(cores, clock), "FLOP/s", grade, f"cubes; {_SOURCE}")
        for name, dtype, grade in _RATES
    }
    side = {"cube_side": Parameter(SIDE, "1", Grade.DATASHEET, "CANN platform_config ini")}
    return HardwareProfile("counted", title, (), measured | rates | side)
