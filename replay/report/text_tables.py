"""Tables of the terminal report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from replay.report.breakdown import State
from replay.report.report_table import ReportTable
from replay.report.result import CollectiveRow, Inspection, Measured, RunResult
from replay.report.words import ms, nbytes_words, number, pct, short


def heading(text: str) -> Text:
    """A blank line and a title."""
    return Text(f"\n{text}", style="bold")


def new_table(*columns: str, left: int = 1) -> ReportTable:
    """An empty table: the first ``left`` columns hold words, the others numbers."""
    return ReportTable(columns, left)


def filled_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> ReportTable:
    """A table of rows of plain words, shown as they are."""
    table = new_table(*columns, left=left)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def rest(rows: Sequence[object], shown: int) -> Iterable[Text]:
    """How many rows a table leaves out, if any."""
    if len(rows) > shown:
        yield Text(f"  {len(rows) - shown:,} more in --json")


def breakdown_table(result: Measured) -> Iterable[RenderableType]:
    """Milliseconds by state, side by side."""
    columns = [name for name in ("measured", "replayed", "predicted") if result.breakdown.get(name)]
    if not columns:
        return
    rank = result.breakdown[columns[0]].get("rank")
    yield heading(f"Where the step goes (slowest rank{'' if rank is None else f': {rank}'}), ms")
    table = new_table("", *columns)
    for key in (*(state.label for state in State), "overlapped_communication"):
        values = [result.breakdown[name].get(key) for name in columns]
        if any(values):
            table.add_row(key.replace("_", " "), *("-" if v is None else f"{v:,.3f}" for v in values))
    yield table


def rank_table(result: Measured) -> Iterable[RenderableType]:
    """Every rank's states, where there are several ranks to compare."""
    rows = result.breakdown_by_rank
    if len(rows) < 2:
        return
    states = [state.label for state in State if any(row[state.label] for row in rows.values())]
    yield heading("Measured, by rank, ms")
    table = new_table("rank", *(state.replace("_", " ") for state in states), left=0)
    for rank, row in rows.items():
        table.add_row(rank, *(f"{row[state] or 0:,.1f}" for state in states))
    yield table


def stragglers(result: RunResult) -> Iterable[RenderableType]:
    """Slowdown and its parts."""
    if not result.stragglers:
        return
    yield heading("Slowdown by stragglers, step / step without them")
    for what, value in result.stragglers.items():
        if isinstance(value, Mapping):
            yield Text(f"  by {what}: " + ", ".join(f"{key} x{number:.3f}" for key, number in value.items()))
        else:
            yield Text(f"  {what}: x{value:.3f}")


def collectives(result: Measured) -> Iterable[RenderableType]:
    """Traffic by kind and group, before and after."""
    if not result.collectives:
        return
    yield heading("Collectives, summed over the ranks given")
    after = any(row.calls_after is not None for row in result.collectives)
    table = new_table("kind", "group", "ranks", "nodes", "calls", "bytes", "transfer", left=2)
    for row in result.collectives:
        table.add_row(row.kind, escape(short(row.group, 40)), *_collective_cells(row, after=after))
    yield table


def _collective_cells(row: CollectiveRow, *, after: bool) -> Iterable[str]:
    """Values, and where they change the ones after: ``512 -> 1024``."""
    pairs: tuple[tuple[Callable[[float | int | None], str], int | None, int | None], ...] = (
        (number, row.size_before, row.size_after),
        (number, row.nodes_before, row.nodes_after),
        (number, row.calls_before, row.calls_after),
        (nbytes_words, row.nbytes_before, row.nbytes_after),
    )
    for show, before, now in pairs:
        yield show(before) if not after or before == now else f"{show(before)} -> {show(now)}"
    moved = after and row.transfer_ms_before != row.transfer_ms_after
    yield ms(row.transfer_ms_before) + (f" -> {ms(row.transfer_ms_after)}" if moved else "")


def chunk_costs(result: Measured) -> Iterable[RenderableType]:
    """Mean pass time by stage, chunk and phase."""
    if not result.chunk_costs:
        return
    yield heading("Chunk costs of the source")
    table = new_table("stage", "chunk", "phase", "mean", "spread", "passes", left=3)
    for row in result.chunk_costs:
        cells = (str(row.stage), str(row.chunk), row.phase, ms(row.mean_ms), ms(row.spread_ms), str(row.count))
        table.add_row(*cells)
    yield table


def top_ops(result: Inspection) -> Iterable[RenderableType]:
    """Device ops with the largest summed time."""
    if result.launch_coverage_pct is not None:
        yield Text(f"\nlaunches whose device work was recorded: {pct(result.launch_coverage_pct)}")
    if not result.top_ops:
        return
    yield heading("Device ops by time")
    table = new_table("op", "calls", "time", "share")
    for op in result.top_ops:
        table.add_row(escape(short(op.name, 72)), str(op.calls), ms(op.total_ms), pct(op.share_pct))
    yield table
