"""What every way to an answer takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replay.report.result import RunResult
from replay.report.slices import Run

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result, and the executions behind it (measured, replayed, predicted) for timelines and notebooks."""

    result: RunResult
    runs: tuple[Run, ...]


def no_progress(_stage: str) -> None:
    """Progress that goes nowhere."""
