"""Matrix multiplication on Ascend AI cores: a cube unit of fixed tiles, fed from memory in aligned blocks.

peak = 2 · M·N·K · cores · clock with M, N, K = 16, 16, 16 for FP16 and BF16, 16, 32, 16 for INT8 (CANN
platform_config, ``cube_m_size`` and the like). Sizes are filled up to whole cubes; rows of a matrix move fastest in
512 B blocks of global memory, and the inner axis should be a multiple of 256 B (Ascend C best practices, GEMM tiling).
Cube and vector cores are two resources: a fused kernel takes as long as the slower one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.costs import gemm
from replay.costs.engine import Engine
from replay.costs.gemm import Precision

GLOBAL_BLOCK_NBYTES = 512.0
INNER_AXIS_NBYTES = 256.0


@dataclass(frozen=True, slots=True)
class Cube:
    """Elements that one instruction multiplies: m x k by k x n."""

    m: float
    n: float
    k: float


CUBES = {2.0: Cube(16.0, 16.0, 16.0), 1.0: Cube(16.0, 32.0, 16.0)}
"""By bytes per element."""


def peak_op_per_s(nbytes: float, cores: float, clock_hz: float) -> float:
    """Dense peak of the cube cores: 2 · m·n·k of a cube, every cycle."""
    cube = CUBES[nbytes]
    return 2.0 * cube.m * cube.n * cube.k * cores * clock_hz


def filled(
    sizes: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike], nbytes: float
) -> tuple[Float64, Float64, Float64]:
    """(m, n, k) rounded up to whole cubes."""
    cube = CUBES.get(nbytes, CUBES[2.0])
    m, n, k = (np.asarray(size, np.float64) for size in sizes)
    return _up(m, cube.m), _up(n, cube.n), _up(k, cube.k)


def aligned_share(inner: npt.ArrayLike, nbytes: float) -> Float64:
    """Useful share of what is moved for rows of ``inner`` elements: whole blocks of 512 B, or of 256 B where the row
    is a multiple of that."""
    row = np.asarray(inner, np.float64) * nbytes
    block = np.where(row % INNER_AXIS_NBYTES == 0, INNER_AXIS_NBYTES, GLOBAL_BLOCK_NBYTES)
    return np.asarray(row / _up(row, block))


def time_ns(m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, precision: Precision, engine: Engine) -> Float64:
    """Time of one GEMM, ns: that of whole cubes, with memory slowed by rows that do not fill their blocks.

    The slowest of the operands counts: A has rows of k elements, B and C of n.
    """
    shape = filled((m, n, k), precision.input_nbytes)
    share = np.minimum(aligned_share(k, precision.input_nbytes), aligned_share(n, precision.output_nbytes))
    whole = gemm.time_ns(*shape, precision, engine)
    slowed = replace(engine, flop_per_s=1e30, l2_bytes_per_s=1e30)
    traffic = gemm.time_ns(*shape, precision, slowed) / share
    return np.asarray(np.maximum(whole, traffic))


def fused_ns(cube_ns: npt.ArrayLike, vector_ns: npt.ArrayLike, *, pipelined: bool = True) -> Float64:
    """Time of a kernel that uses both kinds of cores, ns: the longer part where they are pipelined, else the sum."""
    cube, vector = np.asarray(cube_ns, np.float64), np.asarray(vector_ns, np.float64)
    return np.asarray(np.maximum(cube, vector) if pipelined else cube + vector)


def _up(values: Float64, unit: npt.ArrayLike) -> Float64:
    return np.asarray(np.ceil(values / np.asarray(unit)) * unit)
