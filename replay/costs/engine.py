"""Engine: the arithmetic units of a device as matrix kernels see them, at one data type.

Every field but ``cores`` is what :mod:`replay.costs.gemm` fits. Where nothing was measured, :func:`datasheet` derives
an engine from peaks with shares that hold for the devices whose tables were fitted (H100, A100).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from hwprofiles import HardwareProfile
from hwprofiles.fitted import Fitted
from replay.core.columns import Float64, Int8
from replay.core.dtypes import rate_parameter
from replay.core.evidence import Grade
from replay.cost_model import Values

SUSTAINED_SHARE = 0.88
"""Of the datasheet's dense peak that large matrices reach: 0.84 to 0.87 on H100, 0.85 to 0.97 on A100 (fitted)."""

BANDWIDTH_SHARE = 0.84
"""Of the datasheet's memory bandwidth that streaming reaches: 0.84 to 0.90 on H100, 0.76 to 0.87 on A100 (fitted)."""

L2_BYTES_PER_CORE_AND_S = 1.0e11
"""Bytes a core takes from the cache a second: 24 to 44 GB/s on A100, 105 to 160 GB/s on H100 (fitted)."""


CUBE_SHARE = 1.0
"""Of the peak that cubes sustain where nothing holds them up: in cycles that counters call busy, FP32 products do 1,005
of 1,024 multiply-adds; with this share, tiles and the cache leave 304 and 86 TFLOP/s of a 910B2's 354 and 88 for large
products in BF16 and FP32, where 328 and 87 were published of a 910B (limulidae)."""

WHOLE_WAVES = 1.0
"""Wave share of Ascend's kernels: base blocks are dealt out to the cores before a kernel starts."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Rates and fixed costs of matrix kernels at one data type.

    ``tile_ns``: filling and draining the pipeline of one output tile. ``epilogue_share``: of the time in which a core
    writes its tile that nothing overlaps. ``split_ns`` and ``reduce_ns``: splitting K at all, and each further slice.
    ``wave_share``: 1 where the last wave of tiles costs as much as a full one, 0 where tiles are spread evenly.
    ``ramp_tiles``: tiles in flight at which half the bandwidth is reached. ``sustained``: exponent with which long
    kernels slow down (power and cache). ``ragged_share``: extra cost of a partial row tile that is almost empty.
    ``cast_ns``: conversion of one left element from 16 bits, before the kernel. ``dot_step_ns``: time per step of K of
    dot-product kernels, which run at most at ``vector_flop_per_s``. ``cube_side``: rows and columns of the blocks that
    matrix units multiply whole (:mod:`replay.costs.ascend_cube`), 0 where kernels fill partial tiles with nothing.
    """

    cores: float
    flop_per_s: float
    bytes_per_s: float
    l2_bytes_per_s: float
    floor_ns: float = 2500.0
    tile_ns: float = 500.0
    epilogue_share: float = 0.6
    split_ns: float = 2000.0
    reduce_ns: float = 20.0
    wave_share: float = 0.3
    ramp_tiles: float = 8.0
    sustained: float = 0.02
    ragged_share: float = 0.0
    cast_ns: float = 0.0
    dot_step_ns: float = 1000.0
    vector_flop_per_s: float = 2.0e13
    cube_side: float = 0.0

    @classmethod
    def of(cls, values: Values) -> Engine:
        """From parameter values by name; what is not a field is ignored."""
        return cls(**{field.name: float(values[field.name]) for field in fields(cls) if field.name in values})


@dataclass(frozen=True, slots=True)
class GradedEngine:
    """An engine and how far it is known: ``fitted`` is what it comes from, ``None`` where only peaks are known."""

    engine: Engine
    fitted: Fitted | None
    known: Grade = Grade.DATASHEET  # of the weakest number that the engine was made of, where nothing is fitted

    @property
    def grade(self) -> Grade:
        """Grade of a prediction inside the calibrated range."""
        return self.known if self.fitted is None else Grade.FITTED

    def grades(self, columns: Mapping[str, Float64]) -> Int8:
        """Grade of each prediction: fitted, extrapolated outside the calibrated range, or datasheet."""
        if self.fitted is not None:
            return self.fitted.grades(columns)
        rows = len(next(iter(columns.values()), ()))
        return np.full(rows, self.known, dtype=np.int8)


def engine_of(profile: HardwareProfile, dtype: str) -> GradedEngine | None:
    """The engine of a device at a data type: fitted where a table was, else from peaks; ``None`` without peaks.

    FP16 and BF16 run at the same rates and stand for one another. The conversion of inputs is left out: in training
    it is a kernel of its own.
    """
    same = {"fp16": "bf16", "bf16": "fp16"}.get(dtype, dtype)
    fitted = profile.fit("gemm", op="gemm", dtype=dtype) or profile.fit("gemm", op="gemm", dtype=same)
    if fitted is not None:
        return GradedEngine(replace(Engine.of(fitted.values()), cast_ns=0.0), fitted)
    engine = datasheet(profile, dtype)
    return None if engine is None else GradedEngine(engine, None, _weakest(profile, rate_parameter(dtype)))


def datasheet(profile: HardwareProfile, dtype: str) -> Engine | None:
    """From peak, memory bandwidth and number of cores; ``None`` where the profile lacks peak or bandwidth."""
    peak, bandwidth = profile.get(rate_parameter(dtype)), profile.get("hbm_bytes_per_s")
    if peak is None or bandwidth is None:
        return None
    cores = profile.get("cores") or 100.0
    l2 = profile.get("l2_bytes_per_s") or L2_BYTES_PER_CORE_AND_S * cores
    engine = Engine(cores, SUSTAINED_SHARE * peak, BANDWIDTH_SHARE * bandwidth, l2)
    if (side := profile.get("cube_side")) is not None:
        cubes = {"flop_per_s": CUBE_SHARE * peak, "wave_share": WHOLE_WAVES, "sustained": 0.0}
        engine = replace(engine, cube_side=side, **cubes)
    floor = profile.get("kernel_floor_ns")
    return engine if floor is None else replace(engine, floor_ns=floor)


def _weakest(profile: HardwareProfile, rate: str) -> Grade:
    """At best datasheet: the weakest grade of the peak and the bandwidth."""
    grades = [p.grade for name in (rate, "hbm_bytes_per_s") if (p := profile.parameters.get(name)) is not None]
    return max(Grade.DATASHEET, *grades)
