"""Kernels of a sqlite export as rows of a kernel table, so that one reading of their cells serves both."""

from __future__ import annotations

from collections import defaultdict

from parsers._numbers import ns_text
from parsers.ascend.csv_rows import Row
from parsers.ascend.database import Database, Value
from parsers.ascend.database_names import Names, integer_of, known

Span = tuple[Value, Value]  # start and end, in ns
_CELLS = {
    "Input Shapes": "inputShapes", "Input Data Types": "inputDataTypes", "Input Formats": "inputFormats",
    "Output Shapes": "outputShapes", "Output Data Types": "outputDataTypes", "Output Formats": "outputFormats",
    "OP State": "opState", "HF32 Eligible": "hf32Eligible",
}  # fmt: skip
COMPUTE = ("globalTaskId", "name", "taskType", "opType", "blockNum", "blockDim", "waitNs", *_CELLS.values())
_WAIT = "Wait Time(us)"


class Kernels:
    """Growing rows; ``blockDim`` is the number of blocks only where there is no ``blockNum`` beside it."""

    def __init__(self, database: Database, names: Names) -> None:
        self._names = names
        self._blocks = "blockDim" if database.lacking("COMPUTE_TASK_INFO", ["blockNum"]) else "blockNum"
        self._counters = _counters(database, names)
        self._rows: list[tuple[int, int, int, Row]] = []  # device, start, end
        self._untimed: list[Row] = []

    def add_compute(self, told: tuple[Value, ...], task_type: str, device: int, stream: int, span: Span) -> None:
        """A row of ``COMPUTE`` columns, and where and when its task ran."""
        values = dict(zip(COMPUTE, told, strict=True))
        row = {column: self._names.text(values[name]) for column, name in _CELLS.items()}
        row |= self._counters.get(known(values["globalTaskId"]), {})
        row |= {
            "Name": self._names.text(values["name"]) or task_type,
            "Type": self._names.text(values["opType"]),
            "Accelerator Core": self._names.text(values["taskType"]),
            "Block Num": str(known(values[self._blocks])),
            "Stream ID": str(stream),
        }
        self._add(row, values["waitNs"], device, span)

    def add_collective(self, name: str, op_type: str, wait: Value, device: int, span: Span) -> None:
        """A collective, which kernel tables list as well."""
        self._add({"Name": name, "Type": op_type, "Accelerator Core": "COMMUNICATION"}, wait, device, span)

    def rows(self) -> list[Row]:
        """All rows. A wait that is not told is the time since the device's kernel before ended, as msprof counts."""
        ends: dict[int, int] = {}
        for device, start, end, row in sorted(self._rows, key=lambda item: item[:3]):
            if _WAIT not in row:
                row[_WAIT] = _microseconds(max(start - ends.get(device, start), 0))
            ends[device] = end
        return [*(row for *_, row in self._rows), *self._untimed]

    def _add(self, row: Row, wait: Value, device: int, span: Span) -> None:
        row["Device_id"] = str(device)
        if known(wait) >= 0:
            row[_WAIT] = _microseconds(known(wait))
        start, end = map(integer_of, span)
        if start is None or end is None:
            self._untimed.append(row)
            return
        row |= {"Start Time(us)": _microseconds(start), "Duration(us)": _microseconds(end - start)}
        self._rows.append((device, start, end, row))


def _counters(database: Database, names: Names) -> dict[int, Row]:
    """Counters of the cores by task, in the columns of a kernel table."""
    found: dict[int, Row] = defaultdict(dict)
    columns: dict[Value, str] = {}
    for task, name, value in database.rows("TASK_PMU_INFO", ("globalTaskId", "name", "value")):
        if name not in columns:
            text = names.text(name)
            unit = "(us)" if text.endswith("_time") else "(%)" if text.endswith("utilization") else ""
            columns[name] = text + unit
        found[known(task)][columns[name]] = str(value)
    return dict(found)


def _microseconds(ns: int) -> str:
    return ns_text(ns).decode()
