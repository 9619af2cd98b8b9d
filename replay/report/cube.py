"""Cube analysis: every shape of matrix product in an Ascend profile, against the device's cubes, cores and memory.

A product loses time to blocks that its sizes do not fill, to cores without a block in the last wave, to rows that are
no whole bursts of memory, and to whatever the cost model does not know. The table shows each beside what counters say.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from hwprofiles import HardwareProfile
from parsers.ascend.matmul import Product, is_product
from replay.core.columns import Float64, Int64
from replay.core.units import NS_PER_MS, NS_PER_S, NS_PER_US, percent
from replay.costs.ascend_cube import CUBES
from replay.costs.cube_device import CubeDevice, cube_device
from replay.costs.cube_product import Modelled, filled_flops, modelled, products_in
from replay.report.cube_axes import MOST_SHAPES, Axis, SizeRow, axes_of, size_rows
from replay.trace import KernelDetails, Trace


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What the cost model says of a kernel: its time, the share in which multipliers work, and its tiles."""

    time_us: float
    measured_over_model: float
    mac_pct: float | None  # to be held against ``measured_mac_pct``
    tile: tuple[int, int]  # rows x columns
    tiles: int
    waves: int  # of as many tiles as there are cores
    wave_waste_pct: float  # cores without a tile in the last wave
    grade: str


@dataclass(frozen=True, slots=True)
class GemmRow:
    """One shape of one operator type, over all ranks and steps; null where the input does not tell.

    ``m``, ``n``, ``k`` as in (m, k) x (k, n); of a grouped kernel m (k where ``over_inner``) is of all ``experts``.
    """

    op_type: str
    m: int
    n: int
    k: int
    batch: int
    experts: int
    over_inner: bool
    dtype: str  # what the cubes multiply: "bf16", "tf32" is HF32
    formats: tuple[str, str]
    transposed: tuple[bool | None, bool | None]
    calls: int
    total_ms: float
    mean_us: float
    share_pct: float  # of all matrix products in the table
    tflops: float  # achieved, FLOPs of the sizes in use
    peak_share_pct: float | None  # of the device's peak at this data type
    block_waste_pct: float | None  # of the cubes' work: it fills up blocks
    blocks: int | None  # cores that the kernel was spread over
    idle_core_pct: float | None  # cores that it left out
    cube_utilization_pct: float | None  # as the table prints it: share of all cores' time in which they ran the kernel
    mac_ratio_pct: float | None  # share of that time in which the multipliers worked
    measured_mac_pct: float | None  # share of all cores' time in which the multipliers worked
    model: ModelRow | None
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class CubeFacts:
    """The device, which sizes could be better ones, and the kernels whose shapes are not told."""

    device: CubeDevice
    sizes: tuple[SizeRow, ...]
    without_shape_calls: int
    without_shape_ms: float


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels of one shape: rows of the kernel table and their events."""

    op_type: str
    product: Product
    dtype: str
    rows: Int64
    events: Int64


def cube_facts(trace: Trace, named: HardwareProfile | None = None) -> tuple[tuple[GemmRow, ...], CubeFacts] | None:
    """All matrix products of a trace, longest first; ``None`` where its kernel table has none."""
    details = trace.details
    if details is None or not any(map(is_product, details.op_type, details.core)):
        return None
    device, profile = cube_device(trace, named)
    groups, unknown = grouped(trace, details)
    total = int(sum(trace.dur_ns[group.events].sum() for group in groups)) + int(trace.dur_ns[unknown].sum())
    groups.sort(key=lambda group: -int(trace.dur_ns[group.events].sum()))
    models = modelled([(group.product, group.dtype) for group in groups], profile)
    tried = [profile if at < MOST_SHAPES else None for at in range(len(groups))]
    rows = [
        _row(trace, details, group, (device, model, other), total)
        for group, model, other in zip(groups, models, tried, strict=True)
    ]
    sizes = size_rows([(g.product, g.dtype, int(trace.dur_ns[g.events].sum())) for g in groups], profile)
    lost = int(trace.dur_ns[unknown].sum()) / NS_PER_MS
    return tuple(rows), CubeFacts(device, sizes, len(unknown), lost)


def grouped(trace: Trace, details: KernelDetails) -> tuple[list[Group], Int64]:
    """Kernels that multiply matrices by shape, and the events of those whose shape is not told."""
    told = products_in(details)
    found: dict[tuple[str, Product, str], list[int]] = defaultdict(list)
    unknown = []
    for row in filter(lambda row: is_product(details.op_type[row], details.core[row]), range(len(details))):
        if row in told and trace.dur_ns[details.event[row]] > 0:
            found[details.op_type[row], *told[row]].append(row)
        else:
            unknown.append(int(details.event[row]))
    rows = [(key, np.array(own, np.int64)) for key, own in found.items()]
    return [Group(*key, own, details.event[own]) for key, own in rows], np.array(unknown, np.int64)


def _row(
    trace: Trace, details: KernelDetails, group: Group,
    known: tuple[CubeDevice, Modelled | None, HardwareProfile | None], total: int,
) -> GemmRow:  # fmt: skip
    device, model, profile = known
    product, time, calls = group.product, int(trace.dur_ns[group.events].sum()), len(group.rows)
    rate, peak = product.flops * calls / time * NS_PER_S, _peak(group.dtype, device)
    whole = filled_flops(product, group.dtype)
    counted = _counters(trace, details, group, device.cores)
    return GemmRow(
        group.op_type, product.m, product.n, product.k, product.batch, product.experts, product.over_inner,
        group.dtype or product.left, product.formats, (product.left_transposed, product.right_transposed),
        calls=calls, total_ms=time / NS_PER_MS, mean_us=time / calls / NS_PER_US, share_pct=percent(time, total),
        tflops=rate / 1e12, peak_share_pct=None if peak is None else percent(rate, peak),
        block_waste_pct=None if whole is None else 100.0 - percent(product.flops, whole),
        blocks=counted.blocks, idle_core_pct=counted.idle_pct,
        cube_utilization_pct=counted.cube_pct, mac_ratio_pct=counted.mac_pct, measured_mac_pct=counted.all_mac_pct,
        model=None if model is None else _against(model, time / calls, None if peak is None else (whole or 0.0) / peak),
        axes=axes_of(product, group.dtype, profile),
    )  # fmt: skip


def _against(model: Modelled, mean_ns: float, busy_s: float | None) -> ModelRow:
    share = None if busy_s is None else percent(busy_s * NS_PER_S, model.time_ns)
    waste = 100.0 * (1.0 - model.wave_share)
    return ModelRow(
        model.time_ns / NS_PER_US, mean_ns / model.time_ns, share, model.tile, model.tiles, model.waves, waste,
        model.grade.label,
    )  # fmt: skip


def _peak(dtype: str, device: CubeDevice) -> float | None:
    cube = CUBES.get(dtype)
    if cube is None or device.cores is None or device.clock_mhz is None:
        return None
    return cube.peak_flop_per_s(device.cores, device.clock_mhz * 1e6)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counters of all kernels of one shape, weighted by time; ``None`` where the table has none."""

    blocks: int | None
    idle_pct: float | None
    cube_pct: float | None
    mac_pct: float | None
    all_mac_pct: float | None


def _counters(trace: Trace, details: KernelDetails, group: Group, cores: int | None) -> _Counted:
    rows, time = group.rows, trace.dur_ns[group.events].astype(np.float64)
    used = _mean(details.cube_utilization_pct[rows], time)
    if details.counters is None:
        return _Counted(None, None, used, None, None)
    counters = details.counters
    spread = counters.blocks[rows]
    blocks = int(np.median(spread[spread > 0])) if (spread > 0).any() else None
    idle = None if cores is None or blocks is None else max(0.0, 100.0 * (1.0 - blocks / cores))
    ratio, running = counters.mac_ratio[rows], np.maximum(counters.cube_ns[rows], 0).astype(np.float64)
    work = running * np.maximum(spread, 1)
    mac = _mean(100.0 * ratio, work)
    known = ~np.isnan(ratio) & (running > 0) & (spread > 0)
    everywhere = None
    if known.any() and cores is not None:
        everywhere = percent(float((ratio * work)[known].sum()), float((time * cores)[known].sum()))
    return _Counted(blocks, idle, used, mac, everywhere)


def _mean(values: Float64, weight: Float64) -> float | None:
    """Weighted mean of the values that are known."""
    known = ~np.isnan(values) & (weight > 0)
    return float(np.average(values[known], weights=weight[known])) if known.any() else None
