"""Matrix products of a kernel table: what each row multiplies, and what a device with cubes takes for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from replay.costs.engine import GradedEngine, engine_of
from replay.costs.tiles import chosen
from replay.trace import KernelDetails

SIZES = ("m", "n", "k", "batch", "left_nbytes", "right_nbytes", "output_nbytes", "scale_block")


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
    sizes = sizes_of([(product, dtype)])
    m, n, k = cube.filled(sizes["m"], sizes["n"], sizes["k"])
    return float((2.0 * m * n * k * sizes["batch"])[0])


Typed = tuple[Product, str]
"""A product and the data type in which the cubes multiply it."""


def modelled(products: Sequence[Typed], profile: HardwareProfile | None) -> list[Modelled | None]:
    """What the profile's engine says of each; ``None`` without one for its data type."""
    found: list[Modelled | None] = [None] * len(products)
    for graded, at, sizes in _by_engine(products, profile):
        engine = graded.engine
        whole = ascend_cube.filled(gemm.problem_of(sizes))
        rows, columns = chosen(whole, ascend_cube.TILES, engine)
        tiles = (sizes["batch"] * np.ceil(whole.rows[:, 0] / rows) * np.ceil(whole.n / columns)).tolist()
        times, grades = gemm.columns_ns(engine, sizes).tolist(), graded.grades(sizes).tolist()
        cores = max(round(engine.cores), 1)
        for row, index in enumerate(at):
            tile, count = (int(rows[row]), int(columns[row])), int(tiles[row])
            found[index] = Modelled(times[row], Grade(grades[row]), tile, count, -(-count // cores), cores)
    return found


def times_ns(products: Sequence[Typed], profile: HardwareProfile | None) -> Float64:
    """Modelled time of each, ``NaN`` without an engine for its data type."""
    found = np.full(len(products), np.nan)
    for graded, at, sizes in _by_engine(products, profile):
        found[at] = gemm.columns_ns(graded.engine, sizes)
    return found


def _by_engine(
    products: Sequence[Typed], profile: HardwareProfile | None
) -> Iterator[tuple[GradedEngine, list[int], dict[str, Float64]]]:
    """Engine of each data type, which products it multiplies, and their sizes."""
    for dtype in dict.fromkeys(dtype for _, dtype in products):
        graded = None if profile is None or not dtype else engine_of(profile, dtype)
        if graded is not None and graded.engine.cube_side > 0:
            at = [index for index, (_, other) in enumerate(products) if other == dtype]
            yield graded, at, sizes_of([products[index] for index in at])


def sizes_of(products: Sequence[Typed]) -> dict[str, Float64]:
    """Size columns (:mod:`replay.samples`): a kernel has a product for each of its batch and experts."""
    rows = np.array([_sizes(product, dtype) for product, dtype in products], np.float64).reshape(-1, len(SIZES))
    return {name: rows[:, at].copy() for at, name in enumerate(SIZES)}


def _sizes(product: Product, dtype: str) -> tuple[float, ...]:
    rows, inner = float(product.m), float(product.k)
    rows, inner = (rows, inner / product.experts) if product.over_inner else (rows / product.experts, inner)
    elements = matrix_elements(dtype)
    left = _nbytes(product.left, elements.left if elements is not None else 2.0)
    right, output = _nbytes(product.right, left), _nbytes(product.output, left if dtype not in ("int8", "fp8") else 2.0)
    return rows, float(product.n), inner, float(product.batch * product.experts), left, right, output, 0.0


def with_size(product: Product, axes: str, size: int) -> Product:
    """The product with another size on some axes."""
    m, n, k = (
        size if axis in axes else own for axis, own in zip("mnk", (product.m, product.n, product.k), strict=True)
    )
    return replace(product, m=m, n=n, k=k)


def fixed_axes(product: Product) -> str:
    """Axes whose size a model or its batch decides; rows of experts are what the router gives them."""
    if product.experts == 1:
        return "mnk"
    return "mn" if product.over_inner else "nk"


def _nbytes(dtype: str, unknown: float) -> float:
    if canonical(dtype) == "int4_wo":
        return 0.5
    return float(element_nbytes(dtype) or unknown)
