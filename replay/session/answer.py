"""The answer to a question, and the two ways to it: from a trace and from a pipeline recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parsers import ReadOptions, read
from replay.graph.types import Graph
from replay.recording import PipelineRecording
from replay.report.result import RunResult
from replay.session.question import Facts, Question
from replay.simulate.timeline import Timeline

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A graph and when its ops ran: measured, replayed or predicted."""

    graph: Graph
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class Answer:
    """The result, and the scenarios behind it for timelines and notebooks."""

    result: RunResult
    measured: Scenario
    replayed: Scenario
    predicted: Scenario | None


def no_progress(_stage: str) -> None:
    """Progress that goes nowhere."""


def answer(
    sources: Sequence[Path], question: Question, facts: Facts, progress: Progress = no_progress
) -> Answer:
    """Read ``sources``, replay them, and answer ``question``.

    Raises :class:`RefusedError` where the input cannot answer it or the baseline is not reproduced (R6).
    """
    from replay.session import recording_run, trace_run  # noqa: PLC0415 - both build an Answer

    progress("reading")
    recorded = read(sources, ReadOptions(trace_processor=facts.trace_processor))
    if isinstance(recorded, PipelineRecording):
        return recording_run.answer(recorded, question, facts, progress)
    return trace_run.answer(recorded, question, facts, progress)
