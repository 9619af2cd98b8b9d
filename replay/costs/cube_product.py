"""Matrix products of a kernel table: what each row multiplies, and what a device with cubes takes for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hwprofiles import HardwareProfile
from parsers.ascend.matmul import Operands, Product, is_product, product_of
from replay.core.columns import Float64
from replay.core.dtypes import canonical, element_nbytes, matrix_elements
from replay.core.evidence import Grade
from replay.costs import ascend_cube, gemm
from replay.costs.ascend_cube import CUBES
from replay.costs.engine import engine_of
from replay.costs.tiles import chosen
from replay.trace import KernelDetails


@dataclass(frozen=True, slots=True)
class Modelled:
    """Time of one kernel, and the tiles that it is cut into: rows x columns, how many, in how many waves of cores."""

    time_ns: float
    grade: Grade
    tile: tuple[int, int]
    tiles: int
    waves: int
    cores: int

    @property
    def wave_share(self) -> float:
        """Share of the cores' turns in which they have a tile."""
        return self.tiles / (self.waves * self.cores)


def products_in(details: KernelDetails) -> dict[int, tuple[Product, str]]:
    """Product and data type of every row of a kernel table that multiplies matrices of known shape."""
    found = {}
    for row in range(len(details)):
        if is_product(details.op_type[row], details.core[row]) and (product := _product_in(details, row)) is not None:
            found[row] = product, dtype_of(product, hf32=is_hf32(details, row))
    return found


def is_hf32(details: KernelDetails, row: int) -> bool:
    """True where the table says that FP32 factors may be cut to HF32."""
    return details.counters is not None and bool(details.counters.hf32[row] == 1)


def _product_in(details: KernelDetails, row: int) -> Product | None:
    cells = (details.input_shapes, details.input_dtypes, details.input_formats)
    results = (details.output_shapes, details.output_dtypes, details.output_formats)
    return _product(details.op_type[row], Operands(*(cell[row] for cell in (*cells, *results))))


@lru_cache(maxsize=4096)
def _product(op_type: str, operands: Operands) -> Product | None:
    return product_of(op_type, operands)


def dtype_of(product: Product, *, hf32: bool) -> str:
    """What the cubes multiply: weights in fewer bits are widened before, FP32 may be cut to HF32; "" unknown."""
    left = product.left or product.right
    if left == "fp32" and hf32:
        return "tf32"
    return left if left in CUBES else ""


def filled_flops(product: Product, dtype: str) -> float | None:
    """FLOPs of the whole blocks that the cubes multiply; ``None`` for a type that no cube takes.

    Experts count as equally loaded: tables do not show their rows.
    """
    cube = CUBES.get(dtype)
    if cube is None:
        return None
    sizes = sizes_of(product, dtype)
    m, n, k = cube.filled(sizes["m"], sizes["n"], sizes["k"])
    return float((2.0 * m * n * k * sizes["batch"])[0])


def modelled(product: Product, dtype: str, profile: HardwareProfile | None) -> Modelled | None:
    """Time by the profile's engine; ``None`` without one for this data type."""
    graded = None if profile is None or not dtype else engine_of(profile, dtype)
    if graded is None or graded.engine.cube_side <= 0:
        return None
    engine, sizes = graded.engine, sizes_of(product, dtype)
    whole = ascend_cube.filled(gemm.problem_of(sizes))
    rows, columns = (int(value[0]) for value in chosen(whole, ascend_cube.TILES, engine))
    tiles = int(sizes["batch"][0] * np.ceil(whole.rows[0, 0] / rows) * np.ceil(whole.n[0] / columns))
    cores = max(round(engine.cores), 1)
    grade = Grade(int(graded.grades(sizes)[0]))
    time = float(gemm.columns_ns(engine, sizes)[0])
    return Modelled(time, grade, (rows, columns), tiles, -(-tiles // cores), cores)


def sizes_of(product: Product, dtype: str) -> dict[str, Float64]:
    """Size columns (:mod:`replay.samples`) of one kernel: a product for each of the batch and the experts."""
    rows, inner = float(product.m), float(product.k)
    rows, inner = (rows, inner / product.experts) if product.over_inner else (rows / product.experts, inner)
    elements = matrix_elements(dtype)
    left = _nbytes(product.left, elements.left if elements is not None else 2.0)
    right, output = _nbytes(product.right, left), _nbytes(product.output, left if dtype not in ("int8", "fp8") else 2.0)
    values = {
        "m": rows, "n": float(product.n), "k": inner, "batch": float(product.batch * product.experts),
        "left_nbytes": left, "right_nbytes": right, "output_nbytes": output, "scale_block": 0.0,
    }  # fmt: skip
    return {name: np.array([value]) for name, value in values.items()}


def with_size(product: Product, old: int, new: int) -> Product:
    """The product with every axis of one size changed to another; of grouped ones not the axis that experts share."""
    m, n, k = (
        new if axis in fixed_axes(product) and size == old else size
        for axis, size in zip("mnk", (product.m, product.n, product.k), strict=True)
    )
    return replace(product, m=m, n=n, k=k)


def fixed_axes(product: Product) -> tuple[str, ...]:
    """Axes whose size a model or its batch decides; rows of experts are what the router gives them."""
    if product.experts == 1:
        return "m", "n", "k"
    return ("m", "n") if product.over_inner else ("n", "k")


def _nbytes(dtype: str, unknown: float) -> float:
    if canonical(dtype) == "int4_wo":
        return 0.5
    return float(element_nbytes(dtype) or unknown)
