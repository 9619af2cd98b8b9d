"""The cube analysis as tables of the terminal report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from replay.report.cube import CubeFacts, GemmRow, ModelRow
from replay.report.cube_axes import SizeRow
from replay.report.text_tables import heading, new_table, rest
from replay.report.words import short

_SHOWN = 12
_MEASURED = ("calls", "mean us", "share", "TFLOP/s", "peak", "cores", "cubes on", "MAC", "filled", "rows")
_MODEL = ("measured us", "model us", "ratio", "MAC", "MAC by model", "tiles", "waves filled", "grade")


def cube_tables(rows: Sequence[GemmRow], facts: CubeFacts | None) -> Iterable[RenderableType]:
    """Every shape of matrix product, what the model says of it, and sizes near those in use that gain something."""
    if facts is None:
        return
    yield heading("Matrix products, longest first")
    yield Text(facts.device.sentence)
    if facts.without_shape_calls:
        lost = f"{facts.without_shape_calls:,} kernels, {facts.without_shape_ms:,.3f} ms, tell no shape"
        yield Text(f"{lost}: shapes are recorded from level 1 on; dynamic and empty ones tell nothing")
    if rows:
        yield from _measured_table(rows)
    if modelled := [(row, row.model) for row in rows if row.model is not None]:
        yield from _model_table(modelled)
    if facts.sizes:
        yield from _sizes_table(facts.sizes)


def _measured_table(rows: Sequence[GemmRow]) -> Iterable[RenderableType]:
    table = new_table("type", "m·n·k", "dtype", *_MEASURED, left=3)
    for row in rows[:_SHOWN]:
        table.add_row(escape(short(row.op_type)), shape(row), escape(short(row.dtype)), *_measured(row))
    yield table
    yield from rest(rows, _SHOWN)


def _model_table(rows: Sequence[tuple[GemmRow, ModelRow]]) -> Iterable[RenderableType]:
    yield heading("Matrix products by the cost model")
    table = new_table("m·n·k", "dtype", *_MODEL, left=2)
    for row, model in rows[:_SHOWN]:
        times = f"{row.mean_us:,.1f}", f"{model.time_us:,.1f}", f"{model.measured_over_model:.2f}"
        shares = percentage(row.measured_mac_pct), percentage(model.mac_pct)
        tiles = f"{model.tiles:,} of {model.tile[0]} x {model.tile[1]}"
        filled = f"{100.0 - model.wave_waste_pct:.0f} % of {model.waves}"
        table.add_row(shape(row), escape(short(row.dtype)), *times, *shares, tiles, filled, model.grade)
    yield table
    yield from rest(rows, _SHOWN)


def _sizes_table(rows: Sequence[SizeRow]) -> Iterable[RenderableType]:
    yield heading("Sizes near those in use that the model finds faster")
    table = new_table("size", "axis", "share", "try", "FLOP/s", "time", "grade", left=2)
    for row in rows[:_SHOWN]:
        change = f"{row.gain_pct:+.1f} %", f"{row.time_pct:+.1f} %"
        table.add_row(str(row.size), row.axes, f"{row.share_pct:.1f} %", str(row.nearest), *change, row.grade)
    yield table
    yield from rest(rows, _SHOWN)


def shape(row: GemmRow) -> str:
    """``32x4096x9216``, the products of a batch before it (``8·``), the experts that share it behind (``/64``)."""
    sizes = f"{row.m}x{row.n}x{row.k}"
    sizes = f"{row.batch}·{sizes}" if row.batch > 1 else sizes
    return f"{sizes}/{row.experts}" if row.experts > 1 else sizes


def percentage(value: float | None) -> str:
    """Whole percent, a dash where it is not known."""
    return "-" if value is None else f"{value:.0f} %"


def _measured(row: GemmRow) -> tuple[str, ...]:
    cores = "-" if row.blocks is None else str(row.blocks)
    filled = "-" if row.block_waste_pct is None else f"{100.0 - row.block_waste_pct:.1f} %"
    rows = " ".join(f"{axis.axis}{axis.aligned_nbytes}" for axis in row.axes if axis.aligned_nbytes is not None)
    times = (f"{row.calls:,}", f"{row.mean_us:,.1f}", f"{row.share_pct:.1f} %", f"{row.tflops:,.1f}")
    return (
        *times, percentage(row.peak_share_pct), cores, percentage(row.cube_utilization_pct),
        percentage(row.measured_mac_pct), filled, rows or "-",
    )  # fmt: skip
