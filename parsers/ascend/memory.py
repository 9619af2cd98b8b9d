"""Peak memory of a rank's device, from ``memory_record.csv``.

Its components overlap: PTA is PyTorch's allocator, GE the graph engine's, PTA+GE both, APP all that the process holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from parsers.ascend.csv_rows import Losses, Row, table_rows
from parsers.ascend.text import cell, whole
from parsers.source import SourceFile
from replay.trace import MISSING, MemoryPeak

_MIB = 1 << 20  # the tables say MB
_ALLOCATED = ("PTA+GE", "PTA", "GE")
_RESERVED = ("APP", *_ALLOCATED)


def read_memory(files: Sequence[SourceFile], rank: int, losses: Losses) -> tuple[MemoryPeak, ...]:
    """The largest allocation and the largest reservation of a rank, nothing where no table tells either."""
    return peaks_of(table_rows(files, losses), rank)


def peaks_of(rows: Iterable[Row], rank: int) -> tuple[MemoryPeak, ...]:
    """The same of rows that do not come from a file of their own."""
    most: dict[tuple[str, str], int] = defaultdict(lambda: MISSING)
    for row in rows:
        for column in ("Allocated", "Reserved"):
            key = column, cell(row.get("Component"))
            most[key] = max(most[key], whole(row.get(f"Total {column}(MB)"), _MIB))
    allocated = next((most["Allocated", name] for name in _ALLOCATED if most["Allocated", name] > 0), MISSING)
    reserved = next((most["Reserved", name] for name in _RESERVED if most["Reserved", name] > 0), MISSING)
    return (MemoryPeak(rank, allocated, reserved),) if max(allocated, reserved) > 0 else ()
