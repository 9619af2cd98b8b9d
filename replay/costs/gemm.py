"""Matrix multiplication C (m, n) = A (m, k) · B (k, n) on a device with cores that work on tiles of C.

time = floor + conversion + sustained(min over tiles of max~(cores, memory)), see :mod:`replay.costs.tiles`. The model
is that of CUTLASS' tiles and waves (NVIDIA, "Matrix Multiplication Background User's Guide") with stream-K's choice of
K slices (Osama et al. 2023); its parameters are fitted per data type and device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Bool, Float64
from replay.core.units import NS_PER_S
from replay.cost_model import Columns, CostModel, ParameterSpec, Values, above_quantile, largest_decade
from replay.costs import ascend_cube
from replay.costs.engine import Engine
from replay.costs.tiles import (
    BLOCK_SCALED,
    BLOCK_SCALED_FEW_ROWS,
    PLAIN,
    WEIGHT_ONLY,
    Problem,
    Tile,
    smooth_max,
    sustained_ns,
    tiled_ns,
)

SIXTEEN_BITS = 2.0
FEW_ROWS = 64.0
DOT_ROWS = 4.0
"""Rows up to which libraries take dot-product kernels (TensorRT-LLM's CUDA-core GEMM; cuBLAS has them for one row)."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes per element: ``left`` and ``right`` factor and output; ``accumulates``: C is read, added to and written.

    ``scale_block``: elements a side that share one scale (128 for block-scaled FP8), 0 for none.
    """

    input_nbytes: float = 2.0
    output_nbytes: float = 2.0
    accumulates: bool = False
    right_nbytes: float | None = None
    scale_block: float = 0.0

    @property
    def weight_nbytes(self) -> float:
        """Bytes per element of B, those of A unless stated."""
        return self.input_nbytes if self.right_nbytes is None else self.right_nbytes


def flops(m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> Float64:
    """2 · m · n · k."""
    return 2.0 * np.asarray(m, np.float64) * np.asarray(n, np.float64) * np.asarray(k, np.float64)


def traffic_nbytes(m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, precision: Precision) -> Float64:
    """left · m·k + right · k·n + out · m·n, the last twice where it accumulates: every operand moved once."""
    rows, columns, inner = (np.asarray(size, np.float64) for size in (m, n, k))
    results = rows * columns * (2.0 if precision.accumulates else 1.0)
    factors = precision.input_nbytes * rows * inner + precision.weight_nbytes * columns * inner
    return np.asarray(factors + precision.output_nbytes * results)


def time_ns(m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, precision: Precision, engine: Engine) -> Float64:
    """Time of one GEMM, ns, for sizes of any shapes that broadcast."""
    sizes = np.broadcast_arrays(*(np.asarray(size, np.float64) for size in (m, n, k)))
    columns = {name: size.ravel() for name, size in zip("mnk", sizes, strict=True)}
    words = {
        "left_nbytes": precision.input_nbytes, "right_nbytes": precision.weight_nbytes,
        "output_nbytes": precision.output_nbytes, "accumulate": float(precision.accumulates),
        "scale_block": precision.scale_block,
    }  # fmt: skip
    columns |= {name: np.full(sizes[0].size, value) for name, value in words.items()}
    return columns_ns(engine, columns).reshape(sizes[0].shape)


def columns_ns(engine: Engine, columns: Columns) -> Float64:
    """Time of GEMMs from size columns (:mod:`replay.samples`), ns; ``batch`` matrices share a kernel."""
    return problem_ns(problem_of(columns), _column(columns, "scale_block", 0.0), engine)


def problem_ns(problem: Problem, scale_block: Float64, engine: Engine) -> Float64:
    """floor + conversion of narrow left elements + what the kernel of the fitting library takes, ns."""
    if engine.cube_side > 0:
        busy = tiled_ns(ascend_cube.filled(problem), ascend_cube.TILES, engine)
        return np.asarray(engine.floor_ns + sustained_ns(busy, engine))
    busy = np.empty_like(problem.k)
    for kernels, tiles, dots in _families(problem, scale_block):
        if kernels.any():
            part = problem.take(kernels)
            tiled = tiled_ns(part, tiles, engine)
            busy[kernels] = np.minimum(tiled, dot_product_ns(part, engine)) if dots else tiled
    left = problem.total * problem.k
    cast = np.where(problem.left < SIXTEEN_BITS, engine.cast_ns, 0.0) * left
    return np.asarray(engine.floor_ns + cast + sustained_ns(busy, engine))


def dot_product_ns(problem: Problem, engine: Engine) -> Float64:
    """Kernels for at most four rows, threads along K: max~(K · step, flops / vector rate, traffic), ns."""
    work = 2.0 * problem.total * problem.n * problem.k
    compute = smooth_max(engine.dot_step_ns * problem.k, NS_PER_S * work / engine.vector_flop_per_s)
    traffic = NS_PER_S * problem.nbytes / engine.bytes_per_s
    fitting = problem.rows.max(axis=-1) <= DOT_ROWS
    return np.where(fitting, smooth_max(compute, traffic), np.inf)


def _families(problem: Problem, block: Float64) -> tuple[tuple[Bool, tuple[Tile, ...], bool], ...]:
    """Which kernels belong to which library: (kernels, tiles, whether it has dot-product kernels)."""
    few = problem.rows.max(axis=-1) <= FEW_ROWS
    mixed = problem.right < problem.left
    return (
        ((block > 0) & few, BLOCK_SCALED_FEW_ROWS, False),
        ((block > 0) & ~few, BLOCK_SCALED, False),
        ((block <= 0) & mixed, WEIGHT_ONLY, True),
        ((block <= 0) & ~mixed, PLAIN, True),
    )


def problem_of(columns: Columns) -> Problem:
    """The products of size columns (:mod:`replay.samples`); ``batch`` matrices share a kernel."""
    m, n, k = columns["m"], columns["n"], columns["k"]
    left, right, output = (_column(columns, f"{side}_nbytes", SIXTEEN_BITS) for side in ("left", "right", "output"))
    batch = _column(columns, "batch", 1.0)
    results = output * m * n * (1.0 + _column(columns, "accumulate", 0.0))
    nbytes = batch * (left * m * k + right * n * k + results)
    return Problem(m[:, None], batch[:, None], n, k, left, right, output, nbytes)


def _column(columns: Columns, name: str, default: float) -> Float64:
    """A size that not every table has."""
    found = columns.get(name)
    missing = np.full(len(columns["m"]), default)
    return missing if found is None else np.where(np.isnan(found), default, found)


def _predict(values: Values, columns: Columns) -> Float64:
    return columns_ns(Engine.of(values), columns)


PARAMETERS = (
    ParameterSpec("cores", "1", 100.0, 1.0, 1e6, given=True, profile="cores"),
    ParameterSpec("floor_ns", "ns", 3000.0, 1.0, 1e6, optional=True),
    ParameterSpec("flop_per_s", "FLOP/s", 3e14, 1e11, 1e17, profile="{dtype}_flop_per_s"),
    ParameterSpec("bytes_per_s", "B/s", 2e12, 1e10, 1e14, profile="hbm_bytes_per_s"),
    ParameterSpec("l2_bytes_per_s", "B/s", 1e13, 1e10, 1e15, optional=True),
    ParameterSpec("tile_ns", "ns", 300.0, 1.0, 1e5, optional=True),
    ParameterSpec("epilogue_share", "1", 0.6, 0.0, 3.0, log=False, optional=True),
    ParameterSpec("split_ns", "ns", 2000.0, 1.0, 1e6, optional=True),
    ParameterSpec("reduce_ns", "ns", 100.0, 1.0, 1e6, optional=True),
    ParameterSpec("wave_share", "1", 0.4, 0.0, 1.0, log=False, optional=True),
    ParameterSpec("ramp_tiles", "1", 10.0, 0.1, 1000.0, optional=True),
    ParameterSpec("sustained", "1", 0.03, 0.0, 0.3, log=False, optional=True),
    ParameterSpec("ragged_share", "1", 0.3, 0.0, 4.0, log=False, optional=True),
    ParameterSpec("cast_ns", "ns", 1e-3, 1e-7, 1.0, optional=True),
    ParameterSpec("dot_step_ns", "ns", 1.0, 1e-3, 1e3, optional=True),
    ParameterSpec("vector_flop_per_s", "FLOP/s", 2e13, 1e10, 1e15, given=True, profile="fp32_flop_per_s"),
    ParameterSpec("cube_side", "1", 0.0, 0.0, 1024.0, log=False, given=True, profile="cube_side"),
)
"""At most twelve end up fitted for a data type: what its kernels do not have stays at a bound and is held there."""

COST_MODELS = (
    CostModel(
        name="gemm",
        ops=("gemm",),
        needs=("m", "n", "k", "left_nbytes", "right_nbytes", "output_nbytes"),
        parameters=PARAMETERS,
        predict=_predict,
        calibrated=("m", "n", "k"),
        holdouts=(above_quantile("n·k", lambda columns: columns["n"] * columns["k"]), largest_decade("m")),
        knots={"m": 21, "n": 21, "k": 6},
    ),
)
