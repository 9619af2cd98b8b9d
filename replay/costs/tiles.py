"""Time of a matrix kernel from its output tiles: waves over cores, cache and memory traffic, splitting of K.

A kernel library has a handful of tile shapes and picks one for the problem; :func:`tiled_ns` evaluates each and takes
the fastest, with and without splitting K. All arrays are one-dimensional, one entry a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.costs.engine import Engine

Tile = tuple[int, int]

PLAIN: tuple[Tile, ...] = ((16, 64), (32, 64), (64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128))
"""Rows x columns of CUTLASS and cuBLAS tiles (NVIDIA, CUTLASS profiler; 16 and 32 rows: swapped operands)."""

WEIGHT_ONLY: tuple[Tile, ...] = ((16, 128), (32, 128), (64, 128), (128, 128), (128, 256))
"""Tiles of mixed-input kernels: weights are interleaved for at least 128 columns (TensorRT-LLM fpA_intB)."""

BLOCK_SCALED_FEW_ROWS: tuple[Tile, ...] = ((16, 64), (32, 64), (64, 64), (64, 128))
BLOCK_SCALED: tuple[Tile, ...] = ((128, 32), (128, 64), (128, 128))
"""Tiles of kernels with a scale per 128 x 128 block: 128 rows, or operands swapped up to 64 rows (DeepGEMM)."""

K_SLICE = 64.0
"""Least K that a slice of a split kernel keeps."""

SUSTAINED_NS = 1e6
"""Kernels beyond this length run at the sustained clock (power is regulated within about a millisecond)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """``rows`` x n x k products of ``groups`` matrices: (kernels, groups) rows, each standing for ``copies``.

    ``nbytes``: memory traffic, every operand once; ``left``, ``right``, ``output``: bytes per element. ``total`` rows
    of all matrices, and the ``used`` matrices that have any, follow from these.
    """

    rows: Float64
    copies: Float64
    n: Float64
    k: Float64
    left: Float64
    right: Float64
    output: Float64
    nbytes: Float64
    total: Float64 = field(init=False)
    used: Float64 = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", _over_groups(self.rows, self.copies))
        object.__setattr__(self, "used", np.maximum(_over_groups(self.rows > 0.0, self.copies), 1.0))

    def take(self, kernels: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Problem:
        """Some of the kernels."""
        columns = (self.n, self.k, self.left, self.right, self.output, self.nbytes)
        return Problem(self.rows[kernels], self.copies[kernels], *(column[kernels] for column in columns))


def tiled_ns(problem: Problem, tiles: tuple[Tile, ...], engine: Engine) -> Float64:
    """Time of the fastest tile shape, without floor and conversion, ns."""
    return np.asarray(np.minimum.reduce([_tile_ns(problem, tile, engine) for tile in tiles]))


def chosen(problem: Problem, tiles: tuple[Tile, ...], engine: Engine) -> tuple[Float64, Float64]:
    """(rows, columns) of the fastest tile shape of each kernel."""
    best = np.argmin([_tile_ns(problem, tile, engine) for tile in tiles], axis=0)
    rows, columns = np.array(tiles, np.float64)[best].T
    return rows, columns


def smooth_max(a: Float64, b: Float64) -> Float64:
    """(a⁴ + b⁴)^¼: the larger of two overlapping times, and 1.19 of it where they are equal."""
    a2, b2 = a * a, b * b
    return np.asarray(np.sqrt(np.sqrt(a2 * a2 + b2 * b2)))


def sustained_ns(time_ns: Float64, engine: Engine) -> Float64:
    """t · (1 + t / 1 ms)^sustained: long kernels run at the clock that power allows."""
    return np.asarray(time_ns * (1.0 + time_ns / SUSTAINED_NS) ** engine.sustained)


def _over_groups(values: npt.NDArray[Any], copies: Float64) -> Float64:
    """Sum of values times copies over the last axis."""
    if copies.shape[-1] == 1:
        return np.asarray(values[..., 0] * copies[..., 0])
    return np.asarray(np.einsum("ij,ij->i", values, copies))


def _tile_ns(problem: Problem, tile: Tile, engine: Engine) -> Float64:
    """The faster of one slice of K and the best number of slices.

    A core needs c = max~(2·bm·bn / flops, (bm·left + bn·right) / L2 bandwidth) per step of K, both rates per core. S
    slices cost split + S·reduce, so S = sqrt(K·c / reduce), at most what fills the cores.
    """
    rows, columns = tile
    strips = np.ceil(problem.rows / rows)
    row_tiles = _over_groups(strips, problem.copies)
    across = np.ceil(problem.n / columns)
    tiles = np.maximum(row_tiles, 1.0) * across
    core_flop_per_s, core_bytes_per_s = engine.flop_per_s / engine.cores, engine.l2_bytes_per_s / engine.cores
    loads = NS_PER_S * (rows * problem.left + columns * problem.right) / core_bytes_per_s
    step = smooth_max(np.asarray(NS_PER_S * 2.0 * rows * columns / core_flop_per_s), loads)
    write = engine.epilogue_share * NS_PER_S * rows * columns * problem.output * engine.cores / engine.bytes_per_s
    padding = row_tiles - problem.total / rows  # at most one tile a group
    ragged = engine.ragged_share * padding / problem.used * np.maximum(problem.used * across / engine.cores, 1.0)
    fixed = (engine.tile_ns + write, ragged)
    whole = _kernel_ns(problem, tiles, problem.k * step, fixed, engine)
    useful = np.floor(np.clip(engine.cores / tiles, 1.0, np.maximum(1.0, problem.k / K_SLICE)))
    if not (useful > 1.0).any():
        return whole
    results = NS_PER_S * 4.0 * problem.total * problem.n / engine.l2_bytes_per_s
    each = engine.reduce_ns + results
    slices = np.clip(np.floor(np.sqrt(problem.k * step / each)), 1.0, useful)
    parts = _kernel_ns(problem, tiles * slices, problem.k / slices * step, fixed, engine)
    overhead = np.where(slices > 1.0, engine.split_ns + each * (slices - 1.0), 0.0)
    return np.minimum(whole, parts + overhead)


def _kernel_ns(
    problem: Problem, tiles: Float64, main_ns: Float64, fixed: tuple[Float64, Float64], engine: Engine
) -> Float64:
    """Cores and memory overlapped: max~(waves · tile time, traffic / bandwidth at that many tiles).

    waves = share·⌈tiles / cores⌉ + (1 - share)·max(tiles / cores, 1), and ``ragged`` more;
    bandwidth = peak · tiles / (tiles + ramp).
    """
    tile_ns, ragged = fixed
    even = tiles / engine.cores
    waves = engine.wave_share * np.ceil(even) + (1.0 - engine.wave_share) * np.maximum(even, 1.0)
    traffic = NS_PER_S * problem.nbytes / engine.bytes_per_s * (1.0 + engine.ramp_tiles / tiles)
    return smooth_max((waves + ragged) * (main_ns + tile_ns), traffic)
