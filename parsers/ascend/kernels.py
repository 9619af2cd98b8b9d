"""Kernels as a table lists them: ``kernel_details.csv``, ``op_summary``, or the tasks that are known where neither is.

Columns come and go with versions, levels and metrics; what is missing stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from parsers._numbers import us_to_ns
from parsers.ascend.csv_rows import Losses, Row, table_rows
from parsers.ascend.folder import RankFiles, Role
from parsers.ascend.tasks import kind_of_task
from parsers.ascend.text import cell, count, number
from replay.trace import MISSING, EventKind

_UNKNOWN = float("nan")


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


def read_kernels(files: RankFiles, losses: Losses) -> list[KernelRow]:
    """Rows of all kernel tables with a start and a duration, each once; the others are counted.

    Tables of tasks count only where there is no kernel table: they list the same work without types and shapes.
    """
    listed = _kernels(list(table_rows(files.of(Role.KERNELS), losses)))
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


def _kernels(rows: Sequence[Row]) -> list[KernelRow]:
    start = _times(rows, "Start Time(us)", "Task Start Time(us)")
    dur = _times(rows, "Duration(us)", "Task Duration(us)")
    wait = _times(rows, "Wait Time(us)", "Task Wait Time(us)")
    cube = _times(rows, "aicore_time(us)", "aic_time(us)")
    times = zip(start, dur, wait, cube, strict=True)
    return [_kernel(row, *own) for row, own in zip(rows, times, strict=True)]


def _kernel(row: Row, start_ns: int, dur_ns: int, wait_ns: int, cube_ns: int) -> KernelRow:
    def listed(name: str) -> str:
        return _first(row, name).replace('"', "")

    return KernelRow(
        name=_first(row, "Name", "Op Name"),
        op_type=_first(row, "Type", "OP Type"),
        core=_first(row, "Accelerator Core", "Task Type"),
        start_ns=start_ns,
        dur_ns=dur_ns,
        wait_ns=wait_ns,
        input_shapes=listed("Input Shapes"),
        input_dtypes=listed("Input Data Types"),
        input_formats=listed("Input Formats"),
        output_shapes=listed("Output Shapes"),
        output_dtypes=listed("Output Data Types"),
        output_formats=listed("Output Formats"),
        cube_utilization_pct=_share(row, "cube_utilization(%)", "cube_utilization( %)"),
        blocks=count(_first(row, "Block Num", "Block Dim")),
        cube_ns=cube_ns,
        cube_cycles=count(_first(row, "aic_total_cycles", "total_cycles")),
        mac_ratio=_mac_ratio(row),
        hf32={"YES": 1, "NO": 0}.get(_first(row, "HF32 Eligible").upper(), MISSING),
        stream=count(_first(row, "Stream ID")),
        device=count(_first(row, "Device_id", "Device ID")),
    )


def _tasks(rows: Sequence[Row]) -> list[KernelRow]:
    """Rows of msprof's ``task_time`` and of ``output_timeline_data``, MindSpore's list of the compute ops before 2.4.

    The latter's durations are in milliseconds, its starts in microseconds.
    """
    start = _times(rows, "task_start(us)", "start_time(us)")
    dur = _times(rows, "task_time(us)")
    dur_ms = _times(rows, "duration(ms)")
    found = []
    for row, begin, length, length_ms in zip(rows, start, dur, dur_ms, strict=True):
        name, core = _first(row, "kernel_name", "op_name"), _first(row, "kernel_type") or "AI_CORE"
        taken = length if length >= 0 or length_ms < 0 else length_ms * 1000
        stream, device = count(_first(row, "stream_id")), count(_first(row, "Device_id"))
        found.append(KernelRow(name, "", core, begin, taken, stream=stream, device=device))
    return found


def _first(row: Row, *names: str) -> str:
    return next((cell(row[name]) for name in names if row.get(name)), "")


def _mac_ratio(row: Row) -> float:
    """Share of time in which the multipliers worked; one set of metrics counts it by element type."""
    ratio = _share(row, "aic_mac_ratio", "mac_ratio")
    by_type = [_share(row, f"aic_mac_{kind}_ratio", f"mac_{kind}_ratio") for kind in ("fp16", "int8")]
    told = [share for share in by_type if share >= 0]
    return ratio if ratio >= 0 or not told else sum(told)


def _share(row: Row, *names: str) -> float:
    value = number(_first(row, *names), _UNKNOWN)
    return value if value >= 0 else _UNKNOWN


def _times(rows: Iterable[Row], *names: str) -> list[int]:
    """Exact ns of decimal microseconds, -1 where there is no number."""
    values, valid = us_to_ns([_first(row, *names).encode() for row in rows])
    values[~valid] = MISSING
    return [int(value) for value in values.tolist()]
