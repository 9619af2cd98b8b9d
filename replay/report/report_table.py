"""A table of a report that shows every column whole, whatever the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_GAP = 2  # columns of characters between two columns of the table
_LEAST_WORDS = 16  # characters that a column of words keeps before the table is split


@dataclass(slots=True)
class ReportTable:
    """A table without lines: the first ``left`` columns hold words, the others numbers.

    Words are folded where the terminal is narrow. Where that is not enough, the table is printed in parts that repeat
    the columns of words (the first column, where there are none): a number is never cut.
    """

    columns: tuple[str, ...]
    left: int
    rows: list[tuple[tuple[str, ...], str | None]] = field(default_factory=list)

    def add_row(self, *cells: str, style: str | None = None) -> None:
        """One cell a column, as rich markup."""
        self.rows.append((cells, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or its parts with a blank line between two of them."""
        for index, part in enumerate(self._parts(options.max_width)):
            if index:
                yield Text("")
            yield self._table(part)

    def _parts(self, width: int) -> Iterator[tuple[int, ...]]:
        """Columns of each part: those that are repeated, and as many others as fit beside them."""
        repeated = range(max(self.left, 1))
        widths = [max(map(_length, cells)) for cells in zip(self.columns, *(row for row, _ in self.rows), strict=True)]
        words = sum(min(widths[column], _LEAST_WORDS if column < self.left else width) + _GAP for column in repeated)
        part: list[int] = []
        for column in range(len(repeated), len(widths)):
            if part and words + sum(widths[other] + _GAP for other in part) + widths[column] > width:
                yield (*repeated, *part)
                part = []
            part.append(column)
        yield (*repeated, *part)

    def _table(self, part: tuple[int, ...]) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        for column in part:
            words = column < self.left
            table.add_column(
                self.columns[column], justify="left" if words else "right", overflow="fold", no_wrap=not words
            )
        for cells, style in self.rows:
            table.add_row(*(cells[column] for column in part), style=style)
        return table


def _length(cell: str) -> int:
    """Characters that a cell takes on the terminal."""
    return Text.from_markup(cell).cell_len
