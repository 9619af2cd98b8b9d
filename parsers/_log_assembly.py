"""From what was collected to the tables of a RunLog."""

from __future__ import annotations

from typing import Any

import numpy as np

from parsers._log_collect import Collector
from parsers._log_columns import Columns
from replay.core.columns import Bool, Float64, Int64
from replay.runlog import NOT_LOGGED, Iterations, Memory, Timers, warmup_rows

OTHER_WAY = "iterations that another kind of line tells as well"

_INTEGERS = ("consumed_samples", "global_batch", "skipped", "nan")
_FLOATS = ("loss", "learning_rate", "grad_norm", "tflops_per_device", "tokens_per_s_per_device")
_PLACES = ("run", "iteration", "dialect", "evaluation", "checkpoint", "elapsed_ns")
_LARGEST = float(1 << 62)


def iterations_of(collector: Collector) -> Iterations:
    """Rows of the strongest dialect that the log holds, with their marks."""
    table = collector.iterations
    rows = _strongest(collector)
    values = {name: table.column(name)[rows] for name in table.names}
    empty = np.full(int(rows.sum()), np.nan)
    column = {name: values.get(name, empty) for name in (*_PLACES, *_INTEGERS, *_FLOATS)}
    numbers = {name: _integers(column[name]) for name in (*_PLACES, *_INTEGERS)}
    marks = {name: column[name] == 1 for name in ("evaluation", "checkpoint")}
    usable = ~marks["evaluation"] & ~marks["checkpoint"] & (numbers["skipped"] <= 0)
    run = numbers["run"].astype(np.int32)
    return Iterations(
        run=run,
        iteration=numbers["iteration"],
        span=_spans(run, numbers["iteration"], collector),
        elapsed_ns=numbers["elapsed_ns"],
        consumed_samples=numbers["consumed_samples"],
        global_batch=numbers["global_batch"],
        skipped=numbers["skipped"],
        nan=numbers["nan"],
        loss=column["loss"],
        learning_rate=column["learning_rate"],
        grad_norm=column["grad_norm"],
        tflops_per_device=column["tflops_per_device"],
        tokens_per_s_per_device=column["tokens_per_s_per_device"],
        is_warmup=_warmup(run, numbers["elapsed_ns"], usable),
        is_checkpoint=marks["checkpoint"],
        is_evaluation=marks["evaluation"],
        other={name: found for name, found in values.items() if name not in column and not np.isnan(found).all()},
    )


def _strongest(collector: Collector) -> Bool:
    """Rows of the first of ``DIALECTS`` that occurs."""
    dialect = collector.iterations.column("dialect")
    rows: Bool = dialect == dialect.min(initial=np.inf)
    if not rows.all():
        collector.skipped[OTHER_WAY] += int((~rows).sum())
    return rows


def _warmup(run: Any, elapsed_ns: Int64, usable: Bool) -> Bool:
    warm = np.zeros(len(elapsed_ns), np.bool_)
    for number in np.unique(run).tolist():
        members = np.flatnonzero(run == number)
        kept = usable[members] if usable[members].any() else np.ones(len(members), np.bool_)
        warm[members[: warmup_rows(elapsed_ns[members], kept)]] = True
    return warm


def _spans(run: Any, number: Int64, collector: Collector) -> Int64:
    """Iterations behind each line: the distance to the line before; of a run's first line, the log interval."""
    spans = np.diff(number, prepend=0)
    for row in np.flatnonzero(np.diff(run, prepend=-1)).tolist():
        interval = collector.settings_of(int(run[row])).arguments.get("log_interval")
        following = spans[row + 1] if row + 1 < len(spans) and run[row + 1] == run[row] else 1
        width = interval if isinstance(interval, int) and interval > 0 else int(following)
        spans[row] = max(1, min(width, int(number[row]) or 1))
    return spans.astype(np.int64)


def timers_of(collector: Collector) -> Timers:
    """Timer blocks as columns."""
    run, iteration, name, low, high, mean = _table(
        collector.timers, "run", "iteration", "name", "min_ns", "max_ns", "mean_ns"
    )
    names = collector.timer_names.names
    return Timers(run.astype(np.int32), iteration, name.astype(np.int32), low, high, mean, names)


def memory_of(collector: Collector) -> Memory:
    """Allocator reports as columns."""
    sizes = ("allocated", "max_allocated", "reserved", "max_reserved")
    run, iteration, rank, *nbytes = _table(collector.memory, "run", "iteration", "rank", *sizes)
    return Memory(run.astype(np.int32), iteration, rank.astype(np.int32), *nbytes)


def _table(columns: Columns, *names: str) -> list[Int64]:
    return [_integers(columns.column(name)) for name in names]


def _integers(values: Float64) -> Int64:
    """Whole numbers; not logged where there is none, or one that no column holds."""
    known = np.abs(values) < _LARGEST  # false for NaN
    return np.rint(np.where(known, values, NOT_LOGGED)).astype(np.int64)
