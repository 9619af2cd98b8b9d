"""Ascend's statistics as tables of the terminal report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from replay.report.ascend import PARTS, ApiRow, CommunicationRow, Durations, LinkRow, OperatorRow, StepRow
from replay.report.cube_text import cube_tables
from replay.report.report_table import ReportTable
from replay.report.result import Inspection
from replay.report.text_tables import heading, new_table, rest
from replay.report.words import nbytes_words, ranks_words, short

_SHOWN = 12
_ID_END = 6
_DESCRIPTION = 24  # characters of what a job calls a group
_TIMES = ("count", "total ms", "min us", "avg us", "max us", "share")


def ascend_tables(result: Inspection) -> Iterable[RenderableType]:
    """Operators by type and core, matrix products, collectives, links, host calls, memory and steps, as far as known;
    nothing for other inputs."""
    facts = result.ascend
    if facts is None:
        return
    yield from _operators(facts.operators)
    yield from cube_tables(facts.gemm, facts.cube)
    yield from _communication(facts.communication)
    yield from _links(facts.links)
    yield from _host_calls(facts.host_api)
    yield from _memory(result.memory)
    if facts.steps:
        yield heading("Steps by Ascend's definitions, ms: counted (as in step_trace_time.csv)")
        yield _steps(facts.steps)
        yield from rest(facts.steps, _SHOWN)


def _operators(rows: Sequence[OperatorRow]) -> Iterable[RenderableType]:
    """Kernels without a table have no core; they are among the device ops already."""
    if not any(row.core for row in rows):
        return
    yield heading("Operators by type and core")
    table = new_table("type", "core", *_TIMES, left=2)
    for row in rows[:_SHOWN]:
        table.add_row(escape(short(row.op_type)), escape(short(row.core)), *_cells(row.durations))
    yield table
    yield from rest(rows, _SHOWN)


def _communication(rows: Sequence[CommunicationRow]) -> Iterable[RenderableType]:
    if not rows:
        return
    yield heading("Communication operators")
    columns = ("count", "total ms", "avg us", "max us", "transfer ms", "wait ms", "bytes", "algorithm")
    table = new_table("operator", "group", *columns, left=2)
    alike = Counter(description for description, _ in {(row.description, row.group) for row in rows})
    for row in rows[:_SHOWN]:
        group = _group(row, alone=alike[row.description] == 1)
        table.add_row(escape(short(row.operator)), escape(group), *_communication_cells(row))
    yield table
    yield from rest(rows, _SHOWN)


def _links(rows: Sequence[LinkRow]) -> Iterable[RenderableType]:
    if not rows:
        return
    yield heading("Links, summed over planes (as in communication.json)")
    table = new_table("link", "collectives", "bytes", "transit ms", "GB/s")
    for row in rows:
        size, time, rate = nbytes_words(row.nbytes), f"{row.transit_ms:,.3f}", f"{row.bandwidth_gb_per_s:,.2f}"
        table.add_row(escape(row.transport), f"{row.collectives:,}", size, time, rate)
    yield table


def _host_calls(rows: Sequence[ApiRow]) -> Iterable[RenderableType]:
    if not rows:
        return
    yield heading("Host calls, longest first")
    table = new_table("level", "API", *_TIMES, left=2)
    for row in rows[:_SHOWN]:
        table.add_row(escape(row.level), escape(short(row.api)), *_cells(row.durations))
    yield table
    yield from rest(rows, _SHOWN)


def _memory(memory: Mapping[str, Any]) -> Iterable[RenderableType]:
    peaks = {"allocated": memory.get("peak_gib"), "reserved": memory.get("peak_reserved_gib")}
    if known := [f"{peak:.2f} GiB {what}" for what, peak in peaks.items() if peak is not None]:
        yield heading("Peak memory, the largest of any rank")
        yield Text(f"  {', '.join(known)}")


def _steps(rows: Sequence[StepRow]) -> ReportTable:
    """Steps of ranks and of pipeline stages; where none has Ascend's parts, those that are recorded (MindSpore's)."""
    known = any(part in row.counted_ms or part in row.recorded_ms for row in rows for part in PARTS)
    parts = PARTS if known else tuple(dict.fromkeys(part for row in rows for part in row.recorded_ms))
    table = new_table("rank", "step", *parts, left=2)
    for row in sorted(rows, key=lambda row: not row.stage)[:_SHOWN]:
        cells = [_both(row.counted_ms.get(part), row.recorded_ms.get(part)) for part in parts]
        who = f"stage: {ranks_words(row.stage)}" if row.stage else str(row.rank)
        table.add_row(who, escape(row.step), *cells)
    return table


def _group(line: CommunicationRow, *, alone: bool) -> str:
    """What the job calls the group, and where others are called the same, the end of its id as operators have it."""
    end = f"...{line.group[-_ID_END:]}" if len(line.group) > _ID_END else line.group
    called = short(line.description, _DESCRIPTION)
    return called if called and alone else f"{called} {end}".strip()


def _communication_cells(line: CommunicationRow) -> tuple[str, ...]:
    times = line.durations
    cells = (f"{times.count:,}", f"{times.total_ms:,.3f}", f"{times.avg_us:,.2f}", f"{times.max_us:,.2f}")
    split = ("-" if value is None else f"{value:,.3f}" for value in (line.transfer_ms, line.wait_ms))
    size = "-" if line.nbytes is None else nbytes_words(line.nbytes)
    return (*cells, *split, size, escape(line.algorithm) or "-")


def _cells(durations: Durations) -> tuple[str, ...]:
    times = (durations.min_us, durations.avg_us, durations.max_us)
    cells = (f"{durations.count:,}", f"{durations.total_ms:,.3f}", *(f"{time:,.2f}" for time in times))
    return (*cells, f"{durations.share_pct:.2f} %")


def _both(counted: float | None, recorded: float | None) -> str:
    own = "-" if counted is None else f"{counted:,.3f}"
    return own if recorded is None else f"{own} ({recorded:,.3f})"
