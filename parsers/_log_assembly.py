"""From the lines of a log to a RunLog: what was collected on the way, and the columns made of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parsers._log_arguments import Arguments
from parsers._log_iterations import DIALECTS, Line, mllog_event
from parsers._log_memory import Report, parameter_counts, reports, theoretical
from parsers._log_timers import Timer, TimerBlocks
from replay.core.columns import Float64, Int64, Interner
from replay.core.units import NS_PER_MS
from replay.runlog import NOT_LOGGED, STARTUP, Iterations, Memory, Timers, warmup_rows

TWICE = "iterations printed twice, the last one taken"
OTHER_WAY = "iterations that another kind of line tells as well"
NO_TIME = "iteration lines without a time"

_EVALUATION = ("validation loss at ", "Evaluating on ", "Running validation")
_CHECKPOINT = ("saving checkpoint", "Saving checkpoint", "Saving model checkpoint")
_STEP_TIME = re.compile(r"Step Time : (\d{1,9}(?:\.\d*)?)s GPU utilization: (\d{1,9}(?:\.\d*)?)\s*MODEL_TFLOP/s/GPU")
_INTEGERS = ("consumed_samples", "global_batch", "skipped", "nan")
_FLOATS = ("loss", "learning_rate", "grad_norm", "tflops_per_device", "tokens_per_s_per_device")
_LARGEST = float(1 << 62)


@dataclass(slots=True)
class _Row:
    run: int
    line: Line
    evaluation: bool
    checkpoint: bool


@dataclass(slots=True)
class Collector:
    """Everything read so far. :meth:`feed` takes one line after the other."""

    arguments: Arguments = field(default_factory=Arguments)
    rows: list[_Row] = field(default_factory=list)
    timers: list[tuple[int, int, Timer]] = field(default_factory=list)
    memory: list[tuple[int, Report]] = field(default_factory=list)
    parameters: dict[tuple[int, int], int] = field(default_factory=dict)
    theoretical: dict[str, float] = field(default_factory=dict)
    benchmark: dict[str, Any] = field(default_factory=dict)  # MLPerf's settings
    skipped: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    _run: int = 0
    _fresh: bool = True  # no iteration of this run yet
    _evaluation: bool = False
    _checkpoint: bool = False
    _tflops: float | None = None
    _blocks: TimerBlocks = field(default_factory=TimerBlocks)

    def feed(self, text: str) -> None:
        """Take one line."""
        self.lines += 1
        if self.arguments.feed(text) and not self._fresh:
            self._next_run()
        found = [line for dialect in DIALECTS for line in dialect(text)]
        if found:
            for timer in self._blocks.close():
                self._timer(timer)
        for line in found:
            self._iteration(line)
        for timer in self._blocks.feed(text):
            self._timer(timer)
        self.memory += [(self._run, report) for report in reports(text)]
        self.parameters.update(parameter_counts(text))
        self.theoretical.update(theoretical(text))
        self._marks(text)

    def finish(self) -> None:
        """Take what the end of the input completes."""
        for timer in self._blocks.close():
            self._timer(timer)

    def _timer(self, timer: Timer) -> None:
        at = STARTUP if self._fresh else self.rows[-1].line.iteration
        self.timers.append((self._run, at, timer))

    def _marks(self, text: str) -> None:
        if ":::MLLOG" in text:
            event = mllog_event(text)
            key, value = event.get("key"), event.get("value")
            self._evaluation |= key == "eval_start"
            if isinstance(key, str) and isinstance(value, (str, int, float)):
                self.benchmark.setdefault(key, value)
            return
        self._evaluation |= any(mark in text for mark in _EVALUATION)
        self._checkpoint |= any(mark in text for mark in _CHECKPOINT)
        if "Step Time :" in text and (step := _STEP_TIME.search(text)):
            self._tflops = float(step[2])

    def _iteration(self, line: Line) -> None:
        elapsed = line.values.get("elapsed_ns", 0.0)
        if not 0 < elapsed < _LARGEST or line.iteration > _LARGEST:
            self.dropped[NO_TIME] += 1
            return
        if self._tflops is not None:  # Megatron-Bridge prints it on a line of its own before
            line = Line(line.dialect, line.iteration, {"tflops_per_device": self._tflops, **line.values})
            self._tflops = None
        before = self.rows[-1] if self.rows and not self._fresh else None
        if before and before.line.dialect == line.dialect:
            if before.line.iteration == line.iteration:
                self.skipped[TWICE] += 1
                before.line = line
                return
            if before.line.iteration > line.iteration:
                self._next_run()
        self.rows.append(_Row(self._run, line, self._evaluation, self._checkpoint))
        self._evaluation = self._checkpoint = self._fresh = False

    def _next_run(self) -> None:
        self._run += 1
        self._fresh = True
        self._evaluation = self._checkpoint = False


def iterations_of(collector: Collector) -> Iterations:
    """Columns of the strongest dialect that the log holds."""
    rows = _strongest(collector)
    runs = np.fromiter((row.run for row in rows), np.int32, len(rows))
    number = np.fromiter((row.line.iteration for row in rows), np.int64, len(rows))
    columns: dict[str, Any] = {name: _integers(rows, name) for name in _INTEGERS}
    columns |= {name: _floats(rows, name) for name in _FLOATS}
    elapsed = np.fromiter((round(row.line.values["elapsed_ns"]) for row in rows), np.int64, len(rows))
    evaluation = np.fromiter((row.evaluation for row in rows), np.bool_, len(rows))
    checkpoint = np.fromiter((row.checkpoint for row in rows), np.bool_, len(rows))
    usable = ~evaluation & ~checkpoint & (columns["skipped"] <= 0)
    warmup = np.zeros(len(rows), np.bool_)
    for run in np.unique(runs).tolist():
        members = np.flatnonzero(runs == run)
        kept = usable[members] if usable[members].any() else np.ones(len(members), np.bool_)
        warmup[members[: warmup_rows(elapsed[members], kept)]] = True
    known = {"elapsed_ns", *_INTEGERS, *_FLOATS}
    names = dict.fromkeys(name for row in rows for name in row.line.values if name not in known)
    return Iterations(
        runs, number, _spans(runs, number, collector.arguments.merged()), elapsed, **columns,
        is_warmup=warmup, is_checkpoint=checkpoint, is_evaluation=evaluation,
        other={name: _floats(rows, name) for name in names},
    )  # fmt: skip


def _strongest(collector: Collector) -> list[_Row]:
    kinds = {row.line.dialect for row in collector.rows}
    best = next((dialect.__name__ for dialect in DIALECTS if dialect.__name__ in kinds), "")
    kept = [row for row in collector.rows if row.line.dialect == best]
    if len(kept) < len(collector.rows):
        collector.skipped[OTHER_WAY] += len(collector.rows) - len(kept)
    return kept


def _spans(runs: Any, number: Int64, arguments: dict[str, Any]) -> Int64:
    """Iterations behind each line: the distance to the line before; of a run's first line, the log interval."""
    spans = np.diff(number, prepend=0)
    interval = arguments.get("log_interval")
    first = np.flatnonzero(np.diff(runs, prepend=-1))
    for row in first.tolist():
        following = spans[row + 1] if row + 1 < len(spans) and runs[row + 1] == runs[row] else 1
        width = interval if isinstance(interval, int) and interval > 0 else int(following)
        spans[row] = max(1, min(width, int(number[row]) or 1))
    return spans.astype(np.int64)


def _integers(rows: Sequence[_Row], name: str) -> Int64:
    values = (row.line.values.get(name, NOT_LOGGED) for row in rows)
    return np.fromiter((int(v) if abs(v) < _LARGEST else NOT_LOGGED for v in values), np.int64, len(rows))


def _floats(rows: Sequence[_Row], name: str) -> Float64:
    return np.fromiter((row.line.values.get(name, np.nan) for row in rows), np.float64, len(rows))


def timers_of(collector: Collector) -> Timers:
    """Timer blocks as columns."""
    names = Interner()
    rows = [
        (
            run,
            at,
            names.code(t.name),
            t.low * NS_PER_MS,
            t.high * NS_PER_MS,
            NOT_LOGGED if t.mean is None else t.mean * NS_PER_MS,
        )
        for run, at, t in collector.timers
    ]
    table = np.rint(np.array(rows, np.float64).reshape(-1, 6)).astype(np.int64)
    run, at, name, low, high, mean = (table[:, k].copy() for k in range(6))
    return Timers(run.astype(np.int32), at, name.astype(np.int32), low, high, mean, names.names)


def memory_of(collector: Collector) -> Memory:
    """Allocator reports as columns."""
    rows = [
        (run, r.iteration, r.rank, r.allocated, r.max_allocated, r.reserved, r.max_reserved)
        for run, r in collector.memory
    ]
    table = np.array(rows, np.int64).reshape(-1, 7)
    run, at, rank, *sizes = (table[:, k].copy() for k in range(7))
    return Memory(run.astype(np.int32), at, rank.astype(np.int32), *sizes)
