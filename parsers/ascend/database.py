"""The sqlite exports of Ascend's profilers, opened so that nothing beside them changes.

Exports are left in WAL mode, in which even a reader creates files beside them; an immutable connection does not. One
inside of an archive, or compressed, is written to a temporary file first, and so is one whose log was never merged into
it, with that log. The schema of an export, dozens of tables, often begins behind what the head of the file shows, so an
export is recognised by opening it.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from parsers._compression import is_compressed
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.trace import MISSING

MAGIC = b"SQLite format 3\0"
DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter where sqlite's message quotes what is damaged
Value = int | float | str | None  # a blob is none of them, and is taken for nothing

_PROFILE = frozenset({"task", "pytorch_api", "cann_api", "compute_task_info", "communication_op"})
_STATISTICS = frozenset({"commanalyzertime", "commanalyzerbandwidth", "commanalyzermatrix", "steptracetime"})
_CLUSTER_PREFIXES = ("clustercomm", "clusterstep", "clusterbase", "communicationgroup")
_MISSING_COLUMN = "NULL"
_RANK_IN_NAME = re.compile(r"_profiler_(\d{1,6})\.db", re.IGNORECASE)
_OF_OTHER_TOOLS = frozenset({"task"})  # a name that anybody may give to a table


@dataclass(slots=True)
class Database:
    """An open export: its tables, and what could not be read of them."""

    name: str
    columns: dict[str, frozenset[str]]  # table → columns, both in lower case
    connection: sqlite3.Connection
    damaged: list[str] = field(default_factory=list)  # a sentence for each table that ends in the middle

    def has(self, table: str) -> bool:
        """Whether there is such a table, of any case, with rows that can be read."""
        return next(self.rows(table, ("rowid",)), None) is not None

    def rows(self, table: str, columns: Sequence[str], where: str = "") -> Iterator[tuple[Value, ...]]:
        """These columns of all rows, ``None`` for a column that is not there; no rows for a table that is not there.

        ``where`` is a condition in SQL that keeps rows out that would only be let go of.

        A table that is damaged gives the rows before the damage.
        """
        known = self.columns.get(table.lower())
        if known is None:
            return
        found = ", ".join(f'"{column}"' if column.lower() in known else _MISSING_COLUMN for column in columns)
        count = 0
        try:
            condition = f"WHERE {where}" if where else ""
            for row in self.connection.execute(f'SELECT {found} FROM "{table}" {condition}'):
                yield row
                count += 1
        except DAMAGE as error:
            self.damaged.append(f"{self.name}: {table} is damaged after {count} rows ({error}); those are used")

    def count(self, table: str, where: str) -> int:
        """How many rows fulfil a condition in SQL, 0 where they cannot be counted."""
        try:
            (number,) = self.connection.execute(f'SELECT count(*) FROM "{table}" WHERE {where}').fetchone()
        except DAMAGE:
            return 0
        return int(number)

    def lacking(self, table: str, columns: Sequence[str]) -> list[str]:
        """Those of ``columns`` that a table which is there does not have."""
        known = self.columns.get(table.lower())
        return [] if known is None else [column for column in columns if column.lower() not in known]


def is_sqlite(head: bytes) -> bool:
    """Whether a file begins like a sqlite database."""
    return head.startswith(MAGIC)


def is_profile(tables: frozenset[str]) -> bool:
    """Whether these tables hold the events of a recording."""
    return bool(tables & (_PROFILE - _OF_OTHER_TOOLS)) or ("task" in tables and "string_ids" in tables)


def is_statistics(tables: frozenset[str]) -> bool:
    """Whether these tables hold the communication statistics and steps of one rank (``analysis.db``)."""
    return bool(tables & _STATISTICS)


def is_cluster(tables: frozenset[str]) -> bool:
    """Whether these tables are the analysis of a whole job (``cluster_analysis.db``)."""
    return any(table.startswith(_CLUSTER_PREFIXES) for table in tables)


def tables_of(file: SourceFile) -> frozenset[str] | None:
    """Names of the tables in lower case, ``None`` where the schema cannot be read."""
    status = file.path.stat()
    return _tables(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _tables(file: SourceFile, _size: int, _mtime_ns: int) -> frozenset[str] | None:
    try:
        with opened(file) as database:
            return frozenset(database.columns)
    except TraceError:
        return None


def rank_in_name(name: str) -> int:
    """Rank that torch_npu and MindSpore put into the name of an export, -1 none."""
    found = _RANK_IN_NAME.search(name)
    return int(found[1]) if found else MISSING


def ranks_in(file: SourceFile) -> frozenset[tuple[Value, ...]]:
    """Ranks and devices that an export says it is of, none where it does not say or cannot be read."""
    try:
        with opened(file) as database:
            return frozenset(database.rows("RANK_DEVICE_MAP", ("rankId", "deviceId")))
    except TraceError:
        return frozenset()


@contextmanager
def opened(file: SourceFile) -> Iterator[Database]:
    """The export, open until the block ends. Raises :class:`TraceError` where it is no readable database."""
    with _on_disk(file) as place, closing(sqlite3.connect(place, uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            columns = _columns(connection)
        except DAMAGE as error:
            columns = _columns_of_damaged(connection, file.name, error)
            note = f"{file.name} is damaged or cut short ({error}); what can still be read of it is used"
            yield Database(file.name, columns, connection, [note])
            return
        yield Database(file.name, columns, connection)


def _columns_of_damaged(connection: sqlite3.Connection, name: str, error: Exception) -> dict[str, frozenset[str]]:
    """Columns of a file that is shorter than it says: sqlite opens one only where its schema may be wrong."""
    try:
        connection.execute("PRAGMA writable_schema = ON")
        return _columns(connection)
    except DAMAGE:
        raise TraceError(
            f"{name}: no table can be read ({error}); copy the file again, or export the profile again"
        ) from error


def _columns(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    names = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        name.lower(): frozenset(
            str(column[1]).lower() for column in connection.execute(f'PRAGMA table_info("{name}")').fetchall()
        )
        for name in names
        if '"' not in name
    }


def _uri(path: Path, *, immutable: bool) -> str:
    return f"file:{quote(os.fsencode(path.resolve()))}" + ("?immutable=1" if immutable else "")


@contextmanager
def _on_disk(file: SourceFile) -> Iterator[str]:
    """The file itself where sqlite can open it without a trace, else a copy that is gone after the block."""
    log = file.path.with_name(f"{file.path.name}-wal")
    has_log = file.span is None and log.is_file() and log.stat().st_size > 0
    if file.span is None and not has_log and not is_compressed(next(file.stored_blocks(16), b"")):
        yield _uri(file.path, immutable=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.db"
        with path.open("wb") as copy:
            try:
                for block in file.blocks():
                    copy.write(block)
            except EOFError:
                pass  # the database itself tells that it is cut short
        if has_log:
            shutil.copyfile(log, f"{path}-wal")
        yield _uri(path, immutable=not has_log)
