"""Ascend ``analysis.db`` and ``communication_analyzer.db``: what ``communication.json`` holds, as sqlite tables."""

from __future__ import annotations

from dataclasses import replace

from parsers.ascend.database import is_sqlite, is_statistics, opened, tables_of
from parsers.ascend.database_tables import communication
from parsers.samples import ascend_communication
from parsers.source import SourceFile
from replay.samples import Samples

FORMAT = "Ascend analysis.db"


def claims_file(file: SourceFile) -> bool:
    """A sqlite database with communication statistics of a rank."""
    return is_sqlite(file.head()) and is_statistics(tables_of(file) or frozenset())


def read(file: SourceFile) -> Samples:
    """One sample per size, collective and kind of link; notes tell damage.

    Raises :class:`TraceError` where no table can be read.
    """
    with opened(file) as database:
        samples = ascend_communication.samples_of(file.name, communication(database), iter(()))
        return replace(samples, notes=(*samples.notes, *database.damaged))
