"""Tables that sum up a recording: ``op_statistic``, ``communication_statistic`` and ``api_statistic``.

Where the events are there, they tell the same and more; a folder may hold nothing but the sums.
"""

from __future__ import annotations

from collections.abc import Sequence

from parsers.ascend.csv_rows import Losses, Row, table_rows
from parsers.ascend.text import cell, count, whole
from parsers.source import SourceFile
from replay.core.units import NS_PER_US
from replay.trace import SummaryRow, SummaryTable


def read_summaries(files: Sequence[SourceFile], rank: int, losses: Losses) -> tuple[SummaryRow, ...]:
    """Rows with a name, a count and a sum; the others are counted as dropped."""
    found = []
    for row in table_rows(files, losses):
        summary = _summary(row, rank)
        if summary.name and summary.count > 0 and summary.total_ns >= 0:
            found.append(summary)
        else:
            losses.dropped["summary table rows without a count or a sum"] += 1
    return tuple(found)


def _summary(row: Row, rank: int) -> SummaryRow:
    table, name, detail = _subject(row)

    def ns(*columns: str) -> int:
        told = next((row[column] for column in columns if row.get(column)), "")
        return whole(told, NS_PER_US)

    return SummaryRow(
        table,
        rank,
        cell(row.get(name)),
        cell(row.get(detail)),
        count(row.get("Count", "")),
        ns("Total Time(us)", "Time(us)"),
        ns("Min Time(us)", "Min(us)"),
        ns("Max Time(us)", "Max(us)"),
    )


def _subject(row: Row) -> tuple[SummaryTable, str, str]:
    """What the row is about, and the columns that name it."""
    if "API Name" in row:
        return SummaryTable.HOST_CALLS, "API Name", "Level"
    if "Core Type" in row:
        return SummaryTable.OPERATORS, "OP Type", "Core Type"
    return SummaryTable.COMMUNICATION, "OP Type", ""
