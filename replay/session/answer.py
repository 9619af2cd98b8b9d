"""The answer to a question, and the two ways to it: from a trace and from a pipeline recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parsers import ReadOptions, read, run_description
from replay.recording import PipelineRecording
from replay.runlog import RunLog
from replay.session import log_run, recording_run, trace_run
from replay.session.question import Facts, Question
from replay.session.types import Answer, Progress, no_progress

__all__ = ["Answer", "Progress", "answer", "no_progress"]


def answer(sources: Sequence[Path], question: Question, facts: Facts, progress: Progress = no_progress) -> Answer:
    """Read ``sources``, replay them, and answer ``question``.

    Raises :class:`RefusedError` where the input cannot answer it or the baseline is not reproduced (R6).
    """
    progress("reading")
    recorded = read(sources, ReadOptions(trace_processor=facts.trace_processor))
    if isinstance(recorded, PipelineRecording):
        return recording_run.answer(recorded, question, facts, progress)
    if isinstance(recorded, RunLog):
        raise log_run.refuse(recorded)
    return trace_run.answer(recorded, run_description.find(sources), question, facts, progress)
