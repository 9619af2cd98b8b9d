"""Sqlite exports that are damaged, unfinished, cut short or empty: what is lost is counted or said."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from replay.core.errors import RefusedError, TraceError
from tests.parsers.ascend import databases as db
from tests.parsers.ascend import folders as make
from tests.parsers.ascend.databases import change, export, read

DAMAGES: dict[str, tuple[str, int, str]] = {
    # change → what it is, events left of 23, what is said of it
    "a name that is not there": ("DELETE FROM STRING_IDS WHERE value = 'aten::mm'", 23, "1 rows have a name"),
    "a time that is text": ("UPDATE TASK SET startNs = 'soon' WHERE globalTaskId = 0", 22, "no usable timestamp"),
    "a time beyond 64 bits": ("UPDATE TASK SET startNs = 1e19 WHERE globalTaskId = 0", 22, "no usable timestamp"),
    "a time before 1970": ("UPDATE TASK SET startNs = -5 WHERE globalTaskId = 0", 22, "longer than 104 days"),
    "an end without a number": ("UPDATE TASK SET endNs = NULL WHERE globalTaskId = 0", 22, "no usable duration"),
    "rows twice": ("INSERT INTO TASK SELECT * FROM TASK", 23, "rows given twice"),
    "a column less": ("ALTER TABLE COMMUNICATION_OP DROP COLUMN count", 23, "without COMMUNICATION_OP.count"),
    "a table less": ("DROP TABLE CANN_API", 14, "cannot be told without CANN_API"),
    "an empty table": ("DELETE FROM TASK", 17, "device tasks cannot be told without TASK"),
    "numbers as text": ("UPDATE CANN_API SET startNs = startNs || '', globalTid = globalTid || ''", 23, ""),
    "no enumerations": ("DROP TABLE ENUM_API_TYPE; DROP TABLE ENUM_HCCL_DATA_TYPE", 23, ""),
    "no types of rows": ("ALTER TABLE PYTORCH_API DROP COLUMN type", 23, ""),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_counted_or_said(damage: str, tmp_path: Path) -> None:
    """The rest is read."""
    statement, left, said = DAMAGES[damage]
    trace = read(change(export(tmp_path, make.level1()), statement))
    assert len(trace) == left
    told = [*trace.health.dropped, *trace.health.skipped, *trace.health.warnings]
    assert any(said in sentence for sentence in told)
    assert said or not trace.health.warnings


@pytest.mark.parametrize("statement", ["DROP TABLE STRING_IDS", "DELETE FROM STRING_IDS"])
def test_an_export_that_was_not_finished_is_an_error(statement: str, tmp_path: Path) -> None:
    """Strings are written last; without them nothing has a name."""
    with pytest.raises(TraceError, match="STRING_IDS, which is written last"):
        read(change(export(tmp_path, make.level1()), statement))


def test_an_export_that_is_cut_short_gives_what_is_left(tmp_path: Path) -> None:
    """Of one without its end the events before are used; one whose tables cannot be found is an error."""
    path = export(tmp_path, make.level1())
    whole = path.read_bytes()
    path.write_bytes(whole[:-4096])
    trace = read(path)
    assert len(trace) == 23
    assert trace.health.warnings[0].startswith("ascend_pytorch_profiler_0.db is damaged or cut short")
    path.write_bytes(whole[: 3 * 4096])
    with pytest.raises(TraceError, match="no table can be read"):
        read(path)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_log_that_was_never_merged_is_read_and_left_alone(damaged: bool, tmp_path: Path) -> None:
    """A profiler that was killed leaves the last changes in it; what is no log is ignored."""
    path = export(tmp_path / "a", make.level1())
    kept = tmp_path / "b" / path.name
    kept.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM TASK WHERE globalTaskId = 0")
        connection.commit()
        shutil.copyfile(path, kept)
        shutil.copyfile(f"{path}-wal", f"{kept}-wal")
    log = kept.with_name(f"{kept.name}-wal")
    if damaged:
        log.write_bytes(b"no log")
    before = log.read_bytes()
    assert len(read(kept)) == (23 if damaged else 22)
    assert sorted(file.name for file in kept.parent.iterdir()) == [kept.name, log.name]
    assert log.read_bytes() == before


def test_an_export_without_rows_says_so(tmp_path: Path) -> None:
    """Its tables are there, nothing in them."""
    path = export(tmp_path, make.level1())
    change(path, *(f"DELETE FROM {table}" for table in db.SCHEMA if table != "STRING_IDS"))
    with pytest.raises(RefusedError, match=r"holds any event \(1 sqlite export\)"):
        read(path)


def test_an_export_whose_rows_are_lost_says_so(tmp_path: Path) -> None:
    """It was recorded, but is damaged: no one should record it again for that."""
    path = export(tmp_path, make.level1())
    change(path, *(f"DELETE FROM {table}" for table in db.SCHEMA if table not in ("STRING_IDS", "TASK")))
    with pytest.raises(RefusedError, match=r"holds any event \(1 sqlite export\): .*TASK is damaged after 0 rows"):
        read(db.damage(path, "TASK"))


@pytest.mark.parametrize("table", ["MEMORY_RECORD", "META_DATA", "RANK_DEVICE_MAP", "TASK"])
def test_damage_of_any_table_is_told(table: str, tmp_path: Path) -> None:
    """Of those that hold no events, too."""
    trace = read(db.damage(export(tmp_path, make.level1()), table))
    assert any(f"{table} is damaged after 0 rows" in told for told in trace.health.warnings)


def test_statistics_in_sqlite_stand_in_for_damaged_ones(tmp_path: Path) -> None:
    """A communication.json that was cut is named, and what it held is taken from analysis.db."""
    folder = make.write(tmp_path, 0, make.level0(), tables=False)
    output = folder / "ASCEND_PROFILER_OUTPUT"
    db.statistics(output / "analysis.db", make.communication(transit_ms=0.3))
    (output / "communication.json").write_text('{"step": {"collective": {"a": {"Communication Time Info": {', "utf-8")
    trace = read(folder)
    assert trace.collectives.recorded_transfer_ns.tolist() == [300_000]
    assert any("communication.json is damaged" in told for told in trace.health.warnings)
