"""How well the sizes of matrix products are aligned, and which sizes near them the device would multiply faster.

A size is aligned to what divides the bytes of the rows that run along its axis: bursts of 512 B, parts of 256 B, blocks
of 32 B. Sizes within an eighth of it that are multiples of a burst (of less, where a burst is longer than that) are
tried; the cost model says what they gain in FLOPs a second, which also counts filled blocks and waves of cores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hwprofiles import HardwareProfile
from parsers.ascend.matmul import Product
from replay.core.evidence import Grade
from replay.core.units import NS_PER_MS, percent
from replay.costs.ascend_cube import BURST_NBYTES, CUBES, ROW_NBYTES, SIDE
from replay.costs.cube_product import Typed, fixed_axes, modelled, sizes_of, times_ns, with_size

_REACH = 0.125  # share of a size by which another one may differ
_MOST_TRIED = 32
MOST_SHAPES = 64  # that other sizes are tried on: the longest
_LEAST_GAIN_PCT = 1.0
_LEAST_SHARE_PCT = 1.0  # of all products' time, for a size to be listed
_ALIGNED = (512, 256, 32)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a product. ``fills_blocks``: null for a type that no cube takes. ``aligned_nbytes``: 512, 256 or 32,
    what divides the rows along it, 0 none of them; null where no rows run along it, they are stored in blocks, or their
    type is not told. ``nearest``: of the sizes near it the one that gains
    most by the model, null where none gains a percent or none was tried: axes of experts' rows, and shapes beyond the
    longest 64."""

    axis: str
    size: int
    fills_blocks: bool | None
    aligned_nbytes: int | None
    nearest: int | None
    gain_pct: float | None  # FLOPs a second


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A size that another one near it would beat, over all products that have it, whatever axis it is.

    ``gain_pct``: more FLOPs a second by the model; ``time_pct``: how much longer these kernels take for all that work.
    """

    size: int
    axes: str  # "n of 3 shapes, k of 1"
    total_ms: float
    share_pct: float
    nearest: int
    gain_pct: float
    time_pct: float
    grade: str


Timed = tuple[Product, str, int]
"""A product, its data type, and the measured time of all its kernels."""


def axes_of(product: Product, dtype: str, profile: HardwareProfile | None) -> tuple[Axis, ...]:
    """The three axes; what another size gains only where a profile tells."""
    cube, rows = CUBES.get(dtype), _rows_along(product, dtype)
    found = []
    for axis in ("m", "n", "k"):
        size = getattr(product, axis)
        filled = None if cube is None else size % getattr(cube, axis) == 0
        along = rows.get(axis)
        aligned = None if along is None else next((n for n in _ALIGNED if along % n == 0), 0)
        fixed = profile is not None and axis in fixed_axes(product)
        best = _best([(product, dtype, 1, axis)], size, profile) if fixed else None
        near, gain = (best.nearest, best.gain_pct) if best is not None else (None, None)
        found.append(Axis(axis, size, filled, aligned, near, gain))
    return tuple(found)


def size_rows(products: Sequence[Timed], profile: HardwareProfile | None) -> tuple[SizeRow, ...]:
    """Sizes that another one would beat, those first that save most time."""
    if profile is None:
        return ()
    having: dict[int, list[_Sized]] = defaultdict(list)
    for product, dtype, time in products:
        axes: dict[int, str] = defaultdict(str)
        for axis in fixed_axes(product):
            axes[getattr(product, axis)] += axis
        for size, own in axes.items():
            having[size].append((product, dtype, time, own))
    total = sum(time for _, _, time in products)
    found = []
    for size, sized in having.items():
        time = sum(time for _, _, time, _ in sized)
        best = _best(sized, size, profile) if percent(time, total) >= _LEAST_SHARE_PCT else None
        if best is not None:
            row = SizeRow(
                size, _axes(sized), time / NS_PER_MS, percent(time, total), best.nearest, best.gain_pct, best.time_pct,
                best.grade.label,
            )  # fmt: skip
            found.append(row)
    return tuple(sorted(found, key=lambda row: -row.total_ms * row.gain_pct))


_Sized = tuple[Product, str, int, str]
"""A timed product and its axes of the size in question."""


@dataclass(frozen=True, slots=True)
class _Better:
    nearest: int
    gain_pct: float
    time_pct: float
    grade: Grade


def _best(products: Sequence[_Sized], size: int, profile: HardwareProfile | None) -> _Better | None:
    """The size near ``size`` that gains most over the longest products that have it; of equal ones the nearest."""
    longest = sorted(products, key=lambda timed: -timed[2])[:MOST_SHAPES]
    before = modelled([timed[:2] for timed in longest], profile)
    known = [(*timed, old) for timed, old in zip(longest, before, strict=True) if old is not None]
    if not known:
        return None
    nearby = list(_candidates(size, _steps([timed[:2] for timed in known])))
    changed = [[with_size(product, axes, near) for product, _, _, axes, _ in known] for near in nearby]
    grid = [(product, timed[1]) for row in changed for product, timed in zip(row, known, strict=True)]
    times = np.array([time for _, _, time, _, _ in known], np.float64)
    old_ns = np.array([old.time_ns for *_, old in known])
    ratio = times_ns(grid, profile).reshape(len(nearby), len(known)) / old_ns
    work = [[new.flops / timed[0].flops for new, timed in zip(row, known, strict=True)] for row in changed]
    after, worth = ratio @ times, np.array(work).reshape(ratio.shape) @ times
    grade = max(old.grade for *_, old in known)
    found = [
        _Better(near, percent(gained, spent) - 100.0, percent(spent, float(times.sum())) - 100.0, grade)
        for near, gained, spent in zip(nearby, worth.tolist(), after.tolist(), strict=True)
    ]
    gaining = [better for better in found if better.gain_pct >= _LEAST_GAIN_PCT]
    return max(gaining, key=lambda better: (round(better.gain_pct, 1), -abs(better.nearest - size)), default=None)


def _candidates(size: int, steps: tuple[int, ...]) -> Iterator[int]:
    """Multiples, an eighth below to an eighth above, of the longest step that fits there; few enough to try them."""
    reach = int(size * _REACH)
    step = next((step for step in steps if step <= reach), 0)
    if step:
        step *= -(-2 * reach // (step * _MOST_TRIED))
        first = -(-(size - reach) // step) * step
        yield from (near for near in range(first, size + reach + 1, step) if near != size)


def _steps(products: Sequence[Typed]) -> tuple[int, ...]:
    """Elements of a burst, of its half and of a cube's side, by the narrowest factor of all."""
    sizes = sizes_of(products)
    nbytes = float(np.minimum(sizes["left_nbytes"], sizes["right_nbytes"]).min())
    return (int(BURST_NBYTES / nbytes), int(ROW_NBYTES / nbytes), int(SIDE))


def _rows_along(product: Product, dtype: str) -> dict[str, int]:
    """Bytes of the rows that run along each axis, the shortest of several.

    Factors stored in blocks have none, and of tensors of unknown type they are not known.
    """
    sizes = {name: float(value[0]) for name, value in sizes_of([(product, dtype or product.left)]).items()}
    left_axis, right_axis = "m" if product.left_transposed else "k", "k" if product.right_transposed else "n"
    stored = [
        (left_axis, product.left, sizes["left_nbytes"], product.formats[0]),
        (right_axis, product.right, sizes["right_nbytes"], product.formats[1]),
        ("n", product.output, sizes["output_nbytes"], product.formats[0]),
    ]
    found: dict[str, int] = {}
    for axis, told, nbytes, layout in stored:
        if told and "NZ" not in layout and "FRACTAL" not in layout:
            row = int(getattr(product, axis) * nbytes)
            found[axis] = min(found.get(axis, row), row)
    return found


def _axes(products: Sequence[_Sized]) -> str:
    counts = {axis: sum(axis in axes for *_, axes in products) for axis in "mnk"}
    return ", ".join(f"{axis} of {count}" for axis, count in counts.items() if count)
