"""Cube cores and clock of a device by the counters of its kernel table.

The table counts the time of the cores that a kernel was spread over, and their cycles: clock = cycles / (time ·
blocks). The share of all cores' cycles that it prints gives their number: cores = time · blocks / (share · duration).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Float64, Int64
from replay.core.units import NS_PER_S

CUBE_CORES = ("AI_CORE", "MIX_AIC")
"""What kernel tables call the cores that multiply matrices; of the second, vector cores help."""

_SPREAD = 0.02  # counters that disagree by more tell nothing
_WHOLE = 0.05  # a number of cores this near to a whole one is that


@dataclass(frozen=True, slots=True)
class Counted:
    """Columns of kernels on the cube cores: duration, share of all cores' time in percent, and their counters."""

    dur_ns: Int64
    utilization_pct: Float64
    blocks: Int64
    cube_ns: Int64
    cube_cycles: Int64


def cores_and_clock(kernels: Counted) -> tuple[int | None, float | None]:
    """Number of cube cores and their clock in Hz; ``None`` where the counters are missing or do not agree."""
    used = (kernels.cube_ns > 0) & (kernels.cube_cycles > 0) & (kernels.blocks > 0)
    work = kernels.cube_ns[used].astype(np.float64) * kernels.blocks[used]
    clock = _agreed(kernels.cube_cycles[used] / np.maximum(work, 1.0) * NS_PER_S)
    share = np.nan_to_num(kernels.utilization_pct[used]) / 100.0 * kernels.dur_ns[used]
    return _whole(_agreed(work[share > 0] / share[share > 0])), clock


def _agreed(values: Float64) -> float | None:
    """The median, where most values agree with it."""
    if not len(values):
        return None
    middle = float(np.median(values))
    return middle if float(np.median(np.abs(values - middle))) <= _SPREAD * middle else None


def _whole(value: float | None) -> int | None:
    return None if value is None or abs(value - round(value)) > _WHOLE or round(value) < 1 else round(value)
