"""Ascend's statistics as tables of the terminal report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from replay.report.ascend import PARTS, CommunicationRow, Durations, StepRow
from replay.report.cube_text import cube_tables
from replay.report.report_table import ReportTable
from replay.report.result import Inspection
from replay.report.text_tables import heading, new_table
from replay.report.words import nbytes_words, ranks_words, short

_SHOWN = 12
_ID_END = 6
_DESCRIPTION = 24  # characters of what a job calls a group
_TIMES = ("count", "total ms", "min us", "avg us", "max us", "share")


def ascend_tables(result: Inspection) -> Iterable[RenderableType]:
    """Operators by type and core, collectives, and steps; nothing for other inputs."""
    facts = result.ascend
    if facts is None:
        return
    if any(row.core for row in facts.operators):
        yield heading("Operators by type and core")
        table = new_table("type", "core", *_TIMES, left=2)
        for row in facts.operators[:_SHOWN]:
            table.add_row(escape(short(row.op_type)), row.core, *_cells(row.durations))
        yield table
        yield from _rest(facts.operators)
    yield from cube_tables(facts.gemm, facts.cube)
    if facts.communication:
        yield heading("Communication operators")
        columns = ("count", "total ms", "avg us", "max us", "transfer ms", "wait ms", "bytes", "algorithm")
        table = new_table("operator", "group", *columns, left=2)
        alike = Counter(description for description, _ in {(row.description, row.group) for row in facts.communication})
        for line in facts.communication[:_SHOWN]:
            group = _group(line, alone=alike[line.description] == 1)
            table.add_row(escape(short(line.operator)), escape(group), *_communication_cells(line))
        yield table
        yield from _rest(facts.communication)
    if facts.links:
        yield heading("Links, summed over planes (as in communication.json)")
        table = new_table("link", "collectives", "bytes", "transit ms", "GB/s")
        for link in facts.links:
            size, time, rate = nbytes_words(link.nbytes), f"{link.transit_ms:,.3f}", f"{link.bandwidth_gb_per_s:,.2f}"
            table.add_row(escape(link.transport), f"{link.collectives:,}", size, time, rate)
        yield table
    if facts.host_api:
        yield heading("Host calls, longest first")
        table = new_table("level", "API", *_TIMES, left=2)
        for call in facts.host_api[:_SHOWN]:
            table.add_row(escape(call.level), escape(short(call.api)), *_cells(call.durations))
        yield table
        yield from _rest(facts.host_api)
    if "peak_reserved_gib" in result.memory:
        peaks = (result.memory["peak_gib"], result.memory["peak_reserved_gib"])
        allocated, reserved = ("-" if peak is None else f"{peak:.2f}" for peak in peaks)
        yield heading("Memory of the fullest rank")
        yield Text(f"  {allocated} GiB allocated, {reserved} GiB reserved")
    if facts.steps:
        yield heading("Steps by Ascend's definitions, ms: counted (as in step_trace_time.csv)")
        yield _steps(facts.steps)
        yield from _rest(facts.steps)


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


def _rest(rows: Sequence[object]) -> Iterable[Text]:
    """How many rows are not shown, if any."""
    if len(rows) > _SHOWN:
        yield Text(f"  {len(rows) - _SHOWN} more in --json")


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
