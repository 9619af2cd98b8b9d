"""Matrix multiplication on Ascend AI cores: a cube unit of fixed blocks, fed from memory in aligned bursts.

A cube multiplies 16 x k0 by k0 x 16 where k0 elements are 32 bytes, so sizes are filled up to multiples of 16 (m, n)
and k0 (k). A matrix in global memory moves fastest in bursts of 512 B, and its rows should be multiples of 256 B
(Ascend C best practices, GEMM tiling). Everything else is the tile model of :mod:`replay.costs.tiles`.

peak = 2 · multiply-adds of a core and cycle · cores · clock, with 16·16·16 at 16 bits, 16·32·16 at 8 and 16·64·16 at 4
(CANN platform_config, ``DtypeMKN``), 16·8·16 for HF32 and 16·4·16 for FP32: the counters of convolutions and matrix
products on a device of 24 cores at 1.8 GHz show up to 1,942 and 1,005 useful ones in a cycle of its cubes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.costs.tiles import Problem, Tile

BURST_NBYTES = 512.0
"""Global memory moves fastest in this much."""

ROW_NBYTES = 256.0
"""Rows that are a multiple of this move in such parts."""

SIDE = 16.0
BLOCK_NBYTES = 32.0

TILES: tuple[Tile, ...] = (
    (16, 64), (16, 128), (16, 256), (32, 64), (32, 128), (32, 256), (64, 64), (64, 128), (64, 256), (128, 64),
    (128, 128), (128, 256), (256, 128),
)  # fmt: skip
"""Base blocks of one core: at most 128 x 256 results of FP32 fill L0C (128 KiB); half of L0A and L0B holds a step."""


@dataclass(frozen=True, slots=True)
class Cube:
    """Elements that fill one block, (m, k) by (k, n), and multiply-adds of one core and cycle."""

    m: int
    k: int
    n: int
    macs: int

    def peak_flop_per_s(self, cores: float, clock_hz: float) -> float:
        """2 · multiply-adds · cores · clock."""
        return 2.0 * self.macs * cores * clock_hz

    def filled(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> tuple[Float64, Float64, Float64]:
        """(m, n, k) rounded up to whole blocks."""
        return _up(m, float(self.m)), _up(n, float(self.n)), _up(k, float(self.k))


CUBES = {
    "bf16": Cube(16, 16, 16, 4096), "fp16": Cube(16, 16, 16, 4096), "int8": Cube(16, 32, 16, 8192),
    "fp8": Cube(16, 32, 16, 8192), "int4": Cube(16, 64, 16, 16384), "tf32": Cube(16, 8, 16, 2048),
    "fp32": Cube(16, 8, 16, 1024),
}  # fmt: skip
"""By the data type that is multiplied; ``tf32`` is HF32, FP32 with a shorter mantissa."""


def filled(problem: Problem) -> Problem:
    """The products as the cube does them: whole blocks of each matrix, memory in whole bursts."""
    left, right, out = problem.k * problem.left, problem.n * problem.right, problem.n * problem.output
    rows = problem.total, problem.used * problem.k, problem.total  # of left factor, right factors and result
    plain = [count * row for count, row in zip(rows, (left, right, out), strict=True)]
    moved = [count * moved_nbytes(row) for count, row in zip(rows, (left, right, out), strict=True)]
    return replace(
        problem,
        rows=_up(problem.rows, SIDE), n=_up(problem.n, SIDE), k=_up(problem.k, BLOCK_NBYTES / problem.left),
        nbytes=problem.nbytes * np.sum(moved, axis=0) / np.sum(plain, axis=0),
    )  # fmt: skip


def moved_nbytes(row_nbytes: npt.ArrayLike) -> Float64:
    """Bytes moved for a row of a matrix: whole bursts; rows shorter than one lie in it together."""
    row = np.asarray(row_nbytes, np.float64)
    unit = np.where(row % ROW_NBYTES == 0, ROW_NBYTES, BURST_NBYTES)
    return _up(row, np.where(row < BURST_NBYTES, 1.0, unit))


def _up(values: npt.ArrayLike, unit: npt.ArrayLike) -> Float64:
    return np.asarray(np.ceil(np.asarray(values, np.float64) / np.asarray(unit)) * np.asarray(unit))
