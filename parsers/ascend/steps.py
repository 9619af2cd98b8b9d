"""Parts of steps as the profilers counted them: ``step_trace_time.csv``, its cluster form, and step marks of graphs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from parsers.ascend.csv_rows import Losses, Row, table_rows
from parsers.ascend.text import cell, number, rank_number
from parsers.source import SourceFile
from replay.core.units import NS_PER_MS, NS_PER_US
from replay.trace import MISSING, StepTableRow

_US_PER_MS = NS_PER_MS // NS_PER_US
_NO_PARTS = ("Device_id", "Step", "Type", "Index", "DP Index", "PP Index", "TP Index", "Model ID", "Iteration ID")
_MOMENTS = ("FP Start(us)", "BP End(us)", "Iteration End(us)")  # when, not how long
_LONGEST_MS = 1e12  # 31 years: a damaged number
_MS_PER_TICK = 10 / NS_PER_MS  # of MindSpore
_MINDSPORE_PARTS = ("total", "iteration_interval", "fp_and_bp", "tail")


def read_steps(files: Sequence[SourceFile], rank: int, losses: Losses) -> tuple[StepTableRow, ...]:
    """Rows of step tables of one rank; a recording without steps leaves the step empty."""
    return tuple(step_row(row, rank) for row in table_rows(files, losses) if (row.get("step_num") or "").strip() != "-")


def step_row(row: Row, rank: int, stage: tuple[int, ...] = ()) -> StepTableRow:
    """The parts of one row in ms; MindSpore's ``step_trace_raw`` counts ticks of 10 ns, and ends with a mean."""
    if "step_num" in row:
        times = {name: number(row.get(name), MISSING) for name in _MINDSPORE_PARTS}
        ms = tuple((name, ticks * _MS_PER_TICK) for name, ticks in times.items() if ticks >= 0)
        return StepTableRow(rank, cell(row["step_num"]), ms)
    lasting = {name: cells for name, cells in row.items() if name not in _NO_PARTS and name not in _MOMENTS}
    values = {name.removesuffix("(us)"): number(cells, MISSING) / _US_PER_MS for name, cells in lasting.items()}
    step = cell(row.get("Step")) or cell(row.get("Iteration ID"))
    parts = tuple((name, value) for name, value in values.items() if name and 0 <= value < _LONGEST_MS)
    return StepTableRow(rank, step, parts, stage)


def ranks_of(index: str) -> tuple[int, ...]:
    """Ranks in the order written: ``(0, 1, 2, 3)``; of one rank: ``3``."""
    numbers = map(rank_number, re.findall(r"\d+", index))
    return tuple(dict.fromkeys(rank for rank in numbers if rank >= 0))
