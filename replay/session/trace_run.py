"""From a trace to an answer: replay, gate, predict, report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from parsers.run_description import RunDescription
from replay.core.errors import RefusedError
from replay.core.units import percent
from replay.report.result import RunResult
from replay.report.slices import Run
from replay.session import gate, graph_level, program_level
from replay.session.baseline import Baseline, replay_trace
from replay.session.prediction import Prediction
from replay.session.question import Facts, Question
from replay.session.report import run_result
from replay.session.source import Source, find_source
from replay.session.types import Answer, Progress
from replay.trace import Trace

MUCH_WAITING = 0.1  # of the step: what it waits for is then part of any answer


def answer(trace: Trace, described: RunDescription, question: Question, facts: Facts, progress: Progress) -> Answer:
    """Replay ``trace`` and answer ``question``; :class:`RefusedError` where that cannot be done honestly."""
    check(question)
    progress("building the graph")
    baseline = replay_trace(trace, facts)
    source = find_source(trace, facts, described)
    prediction = None
    if not question.is_empty:
        progress("predicting")
        prediction = predict(baseline, source, question, facts)
    progress("reporting")
    runs = [Run("measured", baseline.graph, baseline.measured), Run("replayed", baseline.graph, baseline.replayed)]
    if prediction:
        runs.append(Run("predicted", prediction.graph, prediction.timeline))
    result = run_result(baseline, source, prediction, question, facts)
    warnings = (*result.warnings, *_doubts(baseline, question), *_missing_members(result))
    return Answer(replace(result, warnings=warnings), tuple(runs))


def _missing_members(result: RunResult) -> Iterator[str]:
    """That much of the step is spent waiting, and that not every rank is there to show for what."""
    given, world = len(result.input.ranks), result.input.world_size
    wait_ms = result.breakdown["measured"].get("wait") or 0.0
    step_ms = result.profiled_step_ms or result.measured_step_ms or 0.0
    if world and given < world and wait_ms > MUCH_WAITING * step_ms:
        yield (
            f"{wait_ms:,.1f} ms ({percent(wait_ms, step_ms):.0f} % of the step) are waits inside collectives, and "
            f"{given} of {world} ranks are given: waiting for the others stays as measured, and only their own "
            "profiles tell why they are late"
        )


def _doubts(baseline: Baseline, question: Question) -> Iterator[str]:
    """What speaks against the baseline: its step, or ops in other places of a step that agrees all the same (R5)."""
    error = baseline.start_error
    if abs(baseline.replay_error_pct) > gate.LIMIT_PCT:
        if question.is_empty:
            yield _not_reproduced(baseline)
    elif error is not None and error.p95_pct > gate.LIMIT_PCT:
        yield (
            f"ops start up to {error.p95_pct:.0f} % of the step (p95) away from where they were measured, so that the "
            "replayed step is about right may be chance: what starts them was not recorded, or not understood"
        )


def _not_reproduced(baseline: Baseline) -> str:
    differing = gate.most_differing(baseline.graph, baseline.replayed)
    return f"the replay is off by more than {gate.LIMIT_PCT:g} %, so no question would be answered from it; {differing}"


def check(question: Question) -> None:
    """Raises :class:`RefusedError` for what no trace can answer."""
    if question.stragglers:
        raise RefusedError("--stragglers needs a pipeline recording with several steps; this input is a trace")


def predict(baseline: Baseline, source: Source, question: Question, facts: Facts) -> Prediction:
    """R6: the gate first, then the edit of the lowest level that answers the question."""
    difference = gate.most_differing(baseline.graph, baseline.replayed)
    forced = gate.require("replayed", baseline.replay_error_pct, difference, force=facts.force)
    if question.changes_program:
        prediction = program_level.predict(baseline, source, question, facts)
    else:
        prediction = graph_level.predict(baseline, question, facts)
    return replace(prediction, forced=prediction.forced or forced)
