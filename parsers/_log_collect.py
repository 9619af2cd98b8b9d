"""What is collected from a log, line by line, and which run and iteration each piece belongs to."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from parsers._log_arguments import Arguments
from parsers._log_columns import NAN, Columns
from parsers._log_iterations import DIALECTS, Line, mllog_event
from parsers._log_memory import parameter_counts, reports, theoretical
from parsers._log_timers import Timer, TimerBlocks
from replay.core.columns import Interner
from replay.core.units import NS_PER_MS
from replay.runlog import STARTUP

TWICE = "iterations printed twice, the last one taken"
NO_TIME = "iteration lines without a time"

_EVALUATION = ("validation loss at ", "Evaluating on ", "Running validation")
_CHECKPOINT = ("saving checkpoint", "Saving checkpoint", "Saving model checkpoint")
_STEP_TIME = re.compile(r"Step Time : (\d{1,9}(?:\.\d*)?)s GPU utilization: (\d{1,9}(?:\.\d*)?)\s*MODEL_TFLOP/s/GPU")
_RANKS = {dialect.__name__: rank for rank, dialect in enumerate(DIALECTS)}
_LARGEST = float(1 << 53)  # nanoseconds that a float holds exactly: 104 days an iteration


class Settings(NamedTuple):
    """What a run printed about itself."""

    arguments: dict[str, Any]
    parameters: dict[tuple[int, int], int]
    theoretical: dict[str, float]


@dataclass(slots=True)
class Collector:
    """Everything read so far. :meth:`feed` takes one line after the other, :meth:`finish` what the end completes."""

    arguments: Arguments = field(default_factory=Arguments)
    iterations: Columns = field(default_factory=Columns)
    timers: Columns = field(default_factory=Columns)
    timer_names: Interner = field(default_factory=Interner)
    memory: Columns = field(default_factory=Columns)
    settings: dict[int, Settings] = field(default_factory=dict)  # of every run that ended
    parameters: dict[tuple[int, int], int] = field(default_factory=dict)
    theoretical: dict[str, float] = field(default_factory=dict)
    benchmark: dict[str, Any] = field(default_factory=dict)  # MLPerf's settings
    skipped: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    _run: int = 0
    _last: tuple[str, int] = ("", STARTUP)  # dialect and iteration of this run's last line
    _evaluation: bool = False
    _checkpoint: bool = False
    _tflops: float | None = None
    _blocks: TimerBlocks = field(default_factory=TimerBlocks)

    def feed(self, text: str) -> None:
        """Take one line."""
        self.lines += 1
        if self.arguments.feed(text) and self._last[1] != STARTUP:
            self._next_run()
            self.arguments.next_run()
            self.parameters, self.theoretical = {}, {}
        found = [line for dialect in DIALECTS for line in dialect(text)]
        if found:
            self.finish()
        for line in found:
            self._iteration(line)
        for timer in self._blocks.feed(text):
            self._timer(timer)
        for report in reports(text):
            self.memory.append({"run": self._run, **report._asdict()})
        self.parameters.update(parameter_counts(text))
        self.theoretical.update(theoretical(text))
        self._marks(text)

    def finish(self) -> None:
        """Close the timer block that is open."""
        for timer in self._blocks.close():
            self._timer(timer)

    def _timer(self, timer: Timer) -> None:
        self.timers.append(
            {
                "run": self._run,
                "iteration": self._last[1],
                "name": self.timer_names.code(timer.name),
                "min_ns": timer.low * NS_PER_MS,
                "max_ns": timer.high * NS_PER_MS,
                "mean_ns": NAN if timer.mean is None else timer.mean * NS_PER_MS,
            }
        )

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
        if not 0 < line.values.get("elapsed_ns", 0.0) < _LARGEST:
            self.dropped[NO_TIME] += 1
            return
        dialect, before = self._last
        if dialect == line.dialect and before == line.iteration:
            self.skipped[TWICE] += 1
            self.iterations.pop()
        elif dialect == line.dialect and before > line.iteration:
            self._next_run()
        place = {"run": self._run, "iteration": line.iteration, "dialect": _RANKS[line.dialect]}
        marks = {"evaluation": self._evaluation, "checkpoint": self._checkpoint}
        bridge = {} if self._tflops is None else {"tflops_per_device": self._tflops}  # printed before the line
        self.iterations.append({**bridge, **line.values, **place, **marks})
        self._last = (line.dialect, line.iteration)
        self._evaluation = self._checkpoint = False
        self._tflops = None

    def settings_of(self, run: int | None) -> Settings:
        """What ``run`` printed; the last run's for ``None``."""
        current = Settings(self.arguments.merged(), self.parameters, self.theoretical)
        return current if run is None else self.settings.get(run, current)

    def _next_run(self) -> None:
        self.settings[self._run] = self.settings_of(None)
        self._run += 1
        self._last = ("", STARTUP)
        self._evaluation = self._checkpoint = False
