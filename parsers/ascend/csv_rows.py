"""Rows of the CSV tables of Ascend's profilers, whoever saved them last.

Cells may hold newlines and trailing tabs, lines may end in CRLF, rows may be short, a header may stand in the middle
where files were put together, and a spreadsheet may have changed the encoding or the separator.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from parsers.ascend.text import text_of
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.trace import Health

_SEPARATORS = (",", ";", "\t")
_NUMERIC = (")", "ratio")  # "Duration(us)", "aic_mac_ratio"
Row = dict[str, str]


@dataclass(slots=True)
class Losses:
    """What could not be used of the tables: records without what they need, and sentences about whole files."""

    dropped: Counter[str] = field(default_factory=Counter)
    damaged: list[str] = field(default_factory=list)

    def health(self) -> Health:
        """The same as a record of health."""
        lost = dict(+self.dropped)
        return Health(events=sum(lost.values()), dropped=lost, warnings=tuple(self.damaged))


def table_rows(files: Sequence[SourceFile], losses: Losses) -> Iterator[Row]:
    """Rows of all files by column name; a damaged file counts as far as it can be read."""
    for file in files:
        try:
            yield from _rows(text_of(file.read()), losses)
        except (csv.Error, TraceError) as error:
            losses.damaged.append(f"{file.name} is damaged ({error}); the rows before are used")


def _rows(text: str, losses: Losses) -> Iterator[Row]:
    text = text.lstrip("\r\n \t")
    first = text.split("\n", 1)[0]
    separator = max(_SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = [name.strip() for name in next(reader, [])]
    for cells in reader:
        first = cells[0].strip() if cells else ""
        if not first and not any(cell.strip() for cell in cells):
            continue
        if first == header[0] and [cell.strip() for cell in cells] == header:
            losses.dropped["repeated header rows"] += 1
            continue
        missing = len(header) - len(cells)
        row = dict(zip(header, cells + [""] * missing if missing > 0 else cells, strict=False))
        yield _with_points(row) if separator == ";" else row


def _with_points(row: Row) -> Row:
    """Numbers of a spreadsheet whose country writes a decimal comma, and so separates by semicolons."""
    return {name: cell.replace(",", ".") if name.endswith(_NUMERIC) else cell for name, cell in row.items()}
