"""Case files: questions whose answer was measured, as TOML (``[[case]]`` tables) or CSV (one row a case)."""

from __future__ import annotations

import csv
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from parsers.source import exists
from replay.core.errors import LayoutError, TraceError, UnknownName
from replay.core.words import listed
from replay.session.interval_calibration import EDITS
from replay.session.question import Facts, Question
from replay.session.words import KEYS, asked, check_known, from_words, number, sizes_from

TIMES = ("measured_step_ms", "unprofiled_step_ms")
WORDS = ("name", "device", "kind", "split")
LIVE = ("live_source", "live_target")
CASE_KEYS = (*WORDS, "source", "target", "edit", *TIMES, "spread_pct", *LIVE)
SKIPPED_TABLES = ("run",)  # what a recorder says of its runs; the cases are complete without
SURE = 0.8  # likeness from which a column is taken for a misspelt key

ALIASES = {  # columns of published tables of measured configurations: key, factor to its unit
    "case_id": ("name", None),
    "case": ("name", None),
    "num_devices": ("world_size", None),
    "num_microbatches": ("microbatches", None),
    "global_batch": ("gbs", None),
    "micro_batch": ("mbs", None),
    "step_time_s": ("measured_step_ms", 1e3),
    "step_s_median": ("measured_step_ms", 1e3),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One question and its measured answer. ``problem`` says why it cannot be asked at all."""

    name: str
    sources: tuple[Path, ...] = ()
    question: Question = field(default_factory=Question)
    facts: Facts = field(default_factory=Facts)
    measured_step_ms: float | None = None
    unprofiled_step_ms: float | None = None
    spread_pct: float | None = None
    device: str = ""
    kind: str = ""
    split: str = ""
    live: tuple[str, str] | None = None  # recorder commands of source and target
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CaseFile:
    """Cases in the order of the file, and what of it was not used."""

    name: str
    cases: tuple[Case, ...]
    warnings: tuple[str, ...] = ()


def read_cases(path: Path) -> CaseFile:
    """The cases in ``path``.

    Raises :class:`TraceError` naming file and case where it cannot be read, holds no case, or a key or value is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise TraceError(f"{path.name}: cannot be read ({reason}); give a .toml or .csv file of cases") from None
    rows, warnings = _from_csv(path.name, text) if path.suffix.lower() == ".csv" else _from_toml(path.name, text)
    if not rows:
        raise TraceError(f"{path.name}: holds no case; write one [[case]] table or one row for each")
    cases = [(where, _case(where, row, path.parent)) for where, row in rows]
    return CaseFile(path.name, _told_apart(cases), warnings)


Rows = list[tuple[str, dict[str, Any]]]  # (where, keys and values)


def _from_toml(file: str, text: str) -> tuple[Rows, tuple[str, ...]]:
    try:
        document = tomllib.loads(text)
    except ValueError as error:  # also for an integer of thousands of digits
        raise TraceError(f"{file}: {error}; give a .toml file with a [[case]] for each, or a .csv file") from None
    tables = document.pop("case", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise TraceError(f"{file}: write every case as a table [[case]]")
    others = [key for key, value in document.items() if isinstance(value, dict | list) and key not in SKIPPED_TABLES]
    if others and (near := get_close_matches("case", others, n=1)):
        raise TraceError(f"{file}: unknown table {near[0]!r}; did you mean [[case]]?")
    rows = [(f"{file}, case {at} ({table.get('name', 'no name')})", dict(table)) for at, table in enumerate(tables, 1)]
    return rows, tuple(f"{file}: the table {key!r} is not used" for key in others)


def _from_csv(file: str, text: str) -> tuple[Rows, tuple[str, ...]]:
    """Rows by line; empty cells say nothing. Columns of published tables are known by their names there."""
    reader = csv.DictReader(text.splitlines(keepends=True), restkey="", strict=True, delimiter=_delimiter(text))
    columns = [column.strip() for column in reader.fieldnames or ()]
    if twice := [column for column, times in Counter(columns).items() if times > 1 and column]:
        raise TraceError(f"{file}: the column {twice[0]!r} is there twice; keep one")
    keys = {column: _column(file, column, columns) for column in columns}
    rows: Rows = []
    try:
        for row in reader:
            if extra := [cell for cell in row.get("", None) or () if cell.strip()]:
                raise TraceError(
                    f"{file}, line {reader.line_num}: more cells than columns ({listed(extra)}); quote what holds one"
                )
            cells = {str(column).strip(): (cell or "").strip() for column, cell in row.items() if column}
            values = {keys[column]: (column, cell) for column, cell in cells.items() if cell and keys[column]}
            known = {key: _converted(column, cell) for key, (column, cell) in values.items()}
            rows.append((f"{file}, line {reader.line_num} ({known.get('name', 'no name')})", known))
    except csv.Error as error:
        raise TraceError(f"{file}, line {reader.line_num}: {error}") from None
    unused = [column for column in columns if not keys[column]]
    return rows, (f"{file}: columns that are not used: {listed(unused)}",) if unused else ()


def _delimiter(text: str) -> str:
    """The one of comma, semicolon and tab that the header has most of."""
    header = next(iter(text.splitlines()), "")
    return max(",;\t", key=header.count)


def _column(file: str, column: str, columns: Sequence[str]) -> str:
    """The key that a column holds, ``""`` for none. Raises :class:`TraceError` for a misspelt one."""
    known = (*CASE_KEYS, *KEYS)
    if column in known:
        return column
    if column in ALIASES:
        key = ALIASES[column][0]
        return "" if key in columns else key
    near = get_close_matches(column.lower(), known, n=1, cutoff=SURE)
    if near and near[0] not in columns:
        raise TraceError(f"{file}: unknown column {column!r}; did you mean {near[0]!r}?")
    return ""


def _converted(column: str, cell: str) -> Any:
    factor = ALIASES.get(column, ("", None))[1]
    return cell if factor is None else factor * number(column, cell)


def _case(where: str, values: Mapping[str, Any], folder: Path) -> Case:
    try:
        for key in values:
            check_known(key, (*CASE_KEYS, *KEYS))
        case = _described(where, values, folder)
        sizes = {key: value for key, value in values.items() if key in KEYS}
        question, facts = asked(
            sizes | sizes_from(values.get("target", {})) | from_words(values.get("edit", "")), folder
        )
    except (LayoutError, UnknownName) as error:
        raise TraceError(f"{where}: {error}") from None
    return replace(case, question=question, facts=facts, kind=case.kind or kind_of(question))


def _described(where: str, values: Mapping[str, Any], folder: Path) -> Case:
    """Everything but the question."""
    words = {key: str(values.get(key, "")) for key in WORDS}
    times = {key: number(key, values[key]) for key in TIMES if key in values}
    live = tuple(str(values[key]) for key in LIVE if key in values)
    case = Case(
        name=words["name"] or where,
        sources=_sources(where, values.get("source", ()), folder),
        measured_step_ms=times.get("measured_step_ms"),
        unprofiled_step_ms=times.get("unprofiled_step_ms"),
        spread_pct=_share(values["spread_pct"]) if "spread_pct" in values else None,
        device=words["device"],
        kind=words["kind"],
        split=words["split"],
        live=(live[0], live[1]) if len(live) == len(LIVE) else None,
    )
    return replace(case, problem=_problem(where, case))


def _sources(where: str, value: Any, folder: Path) -> tuple[Path, ...]:
    """Paths from the folder of the cases; an empty one is none."""
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list | tuple) or not all(isinstance(source, str) for source in named):
        raise TraceError(f"{where}: source must be a path or a list of paths, got {value!r}")
    return tuple(folder / source for source in named if source)


def _problem(where: str, case: Case) -> str:
    """Why there is nothing to predict from or to compare with."""
    if not case.sources:
        return f"{where}: names no source to predict from; give the trace of a measured step in 'source'"
    for source in case.sources:
        if not exists(source):
            return f"{where}: source {source.name!r} is no file or folder; give the trace of a measured step"
    if case.measured_step_ms is None:
        return f"{where}: states no measured step; give it in 'measured_step_ms'"
    return ""


def _share(value: Any) -> float:
    """A spread: 0 is one."""
    return 0.0 if value in (0, "0") else number("spread_pct", value)


def kind_of(question: Question) -> str:
    """What a question changes, as words joined by ``+``; sizes that follow from others are named where given."""
    return "+".join([*question.layout, *(name for name in EDITS if getattr(question, name))]) or "nothing"


def _told_apart(rows: Sequence[tuple[str, Case]]) -> tuple[Case, ...]:
    """Cases of one name with their place in the file behind it."""
    count = Counter(case.name for _, case in rows)
    places = [where.rpartition(", ")[2].partition(" (")[0] for where, _ in rows]
    return tuple(
        case if count[case.name] == 1 else replace(case, name=f"{case.name} ({place})")
        for place, (_, case) in zip(places, rows, strict=True)
    )
