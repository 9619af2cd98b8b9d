"""Kernels as a table lists them: ``kernel_details.csv``, ``op_summary``, or the tasks that are known where neither is.

Columns come and go with versions, levels and metrics; what is missing stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from parsers._numbers import us_to_ns
from parsers.ascend.csv_rows import Losses, Row, table_rows
from parsers.ascend.folder import RankFiles, Role
from parsers.ascend.tasks import kind_of_task
from parsers.ascend.text import cell, count, number
from replay.trace import MISSING, EventKind

Value = TypeVar("Value")
_BATCH = 8192
_ROUNDED = re.compile(r"[eE]\+?\d{2}$")  # 1.71758E+15
_UNKNOWN = float("nan")
_MOST_PERCENT = 1000.0  # clocks that change while they count bring shares over 100 %, not beyond that
_LONGEST = 10**15  # beyond it a duration is no duration, nor an int64 of ns


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One row of a kernel table; empty, -1 and NaN where it does not say."""

    name: str
    op_type: str
    core: str  # "AI_CORE", "MIX_AIC", "AI_VECTOR_CORE", …
    start_ns: int
    dur_ns: int
    wait_ns: int = MISSING
    input_shapes: str = ""  # "4096,7168;7168,2048"
    input_dtypes: str = ""
    input_formats: str = ""
    output_shapes: str = ""
    output_dtypes: str = ""
    output_formats: str = ""
    cube_utilization_pct: float = _UNKNOWN
    blocks: int = MISSING  # cores that it was spread over
    cube_ns: int = MISSING
    cube_cycles: int = MISSING
    mac_ratio: float = _UNKNOWN
    hf32: int = MISSING  # 1 eligible, 0 not
    stream: int = MISSING
    device: int = MISSING
    number: int = MISSING  # of its row among those below the headers, from 1


def read_kernels(files: RankFiles, losses: Losses) -> list[KernelRow]:
    """Rows of all kernel tables with a start and a duration, each once; the others are counted.

    Tables of tasks count only where there is no kernel table: they list the same work without types and shapes.
    """
    rows = table_rows(files.of(Role.KERNELS), losses)
    listed: list[KernelRow] = []
    for batch in _batches(rows):
        listed += _kernels(batch, len(listed) + 1)
    if not listed:
        tasks = _tasks(list(table_rows(files.of(Role.TASKS), losses)))
        listed = [row for row in tasks if kind_of_task(row.name, row.core) == EventKind.KERNEL]
    return _once(listed, losses)


def kernels_of(rows: Sequence[Row], losses: Losses) -> list[KernelRow]:
    """The same of rows that do not come from a file of their own."""
    return _once(_kernels(rows), losses)


def _once(listed: Sequence[KernelRow], losses: Losses) -> list[KernelRow]:
    timed = [row for row in listed if row.start_ns >= 0 and row.dur_ns >= 0]
    once = list({(row.name, row.start_ns, row.dur_ns, row.device, row.stream): row for row in timed}.values())
    losses.dropped["kernel table rows without times"] += len(listed) - len(timed)
    losses.dropped["kernel table rows given twice"] += len(timed) - len(once)
    return once


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Rows some thousands at a time: most of a row's cells are of counters that nobody asks for."""
    while batch := list(islice(rows, _BATCH)):
        yield batch


def _kernels(rows: Sequence[Row], first: int = 1) -> list[KernelRow]:
    """All ``rows``, the first of which has this number."""

    def listed(name: str) -> list[str]:
        return [text.replace('"', "") for text in _texts(rows, name)]

    columns = (
        _texts(rows, "Name", "Op Name"),
        _texts(rows, "Type", "OP Type"),
        _texts(rows, "Accelerator Core", "Task Type"),
        _times(rows, "Start Time(us)", "Task Start Time(us)"),
        _times(rows, "Duration(us)", "Task Duration(us)"),
        _times(rows, "Wait Time(us)", "Task Wait Time(us)"),
        listed("Input Shapes"),
        listed("Input Data Types"),
        listed("Input Formats"),
        listed("Output Shapes"),
        listed("Output Data Types"),
        listed("Output Formats"),
        _read(rows, _share, "cube_utilization(%)", "cube_utilization( %)"),
        _read(rows, count, "Block Num", "Block Dim"),
        _times(rows, "aicore_time(us)", "aic_time(us)"),
        _read(rows, count, "aic_total_cycles", "total_cycles"),
        _mac_ratios(rows),
        _read(rows, _yes_or_no, "HF32 Eligible"),
        _read(rows, count, "Stream ID"),
        _read(rows, count, "Device_id", "Device ID"),
        range(first, first + len(rows)),
    )
    return [KernelRow(*values) for values in zip(*columns, strict=True)]


def _mac_ratios(rows: Sequence[Row]) -> list[float]:
    """Shares of time in which the multipliers worked; one set of metrics counts it by element type."""
    whole = _read(rows, _share, "aic_mac_ratio", "mac_ratio")
    parts = [_read(rows, _share, f"aic_mac_{kind}_ratio", f"mac_{kind}_ratio") for kind in ("fp16", "int8")]
    sums = [[share for share in own if share >= 0] for own in zip(*parts, strict=True)]
    return [ratio if ratio >= 0 or not told else sum(told) for ratio, told in zip(whole, sums, strict=True)]


def _tasks(rows: Sequence[Row]) -> list[KernelRow]:
    """Rows of msprof's ``task_time`` and of ``output_timeline_data``, MindSpore's list of the compute ops before 2.4.

    The latter's durations are in milliseconds, its starts in microseconds.
    """
    start = _times(rows, "task_start(us)", "start_time(us)")
    dur = _times(rows, "task_time(us)")
    dur_ms = _times(rows, "duration(ms)")
    taken = [
        length if length >= 0 or not 0 <= length_ms < _LONGEST else length_ms * 1000
        for length, length_ms in zip(dur, dur_ms, strict=True)
    ]
    names, cores = _texts(rows, "kernel_name", "op_name"), _texts(rows, "kernel_type")
    streams, devices = _read(rows, count, "stream_id"), _read(rows, count, "Device_id")
    columns = zip(names, cores, start, taken, streams, devices, strict=True)
    return [
        KernelRow(name, "", core or "AI_CORE", begin, length, stream=stream, device=device)
        for name, core, begin, length, stream, device in columns
    ]


def _texts(rows: Sequence[Row], *names: str) -> list[str]:
    """Cells of the first of these columns that says something, row by row; empty where none does."""
    return _read(rows, str, *names)


def _read(rows: Sequence[Row], convert: Callable[[str], Value], *names: str) -> list[Value]:
    """Converted cells of such a column; the same few values stand in most of them, so each is converted once."""
    found = [""] * len(rows)
    for name in names:
        own = [row.get(name, "") for row in rows]
        clean = {text: cell(text) for text in set(own)}
        found = [before or clean[text] for before, text in zip(found, own, strict=True)]
    converted = {text: convert(text) for text in set(found)}
    return [converted[text] for text in found]


def _share(text: str) -> float:
    value = number(text, _UNKNOWN)
    return value if 0 <= value <= _MOST_PERCENT else _UNKNOWN


def _yes_or_no(text: str) -> int:
    return {"YES": 1, "NO": 0}.get(text.upper(), MISSING)


def _times(rows: Sequence[Row], *names: str) -> list[int]:
    """Exact ns of decimal microseconds, -1 where there is none, a negative one, or what a spreadsheet rounded it to."""
    exact = [b"" if _ROUNDED.search(text) else text.encode() for text in _texts(rows, *names)]
    values, valid = us_to_ns(exact)
    values[~valid | (values < 0)] = MISSING
    return [int(value) for value in values.tolist()]
