"""From a pipeline recording to an answer or an inspection."""

from __future__ import annotations

from dataclasses import replace

from replay.core.errors import RefusedError
from replay.core.units import ns_to_ms
from replay.recording import PipelineRecording
from replay.report.accuracy import measured_timeline, start_error_p95
from replay.report.breakdown import breakdown
from replay.report.result import ChunkCostRow, Inspection, LayoutFacts, Measured, RunResult, Topic, extend
from replay.report.slices import Run
from replay.report.statistics import collectives
from replay.session import gate
from replay.session.facts import health_facts, recording_facts
from replay.session.graph_level import changes, edit
from replay.session.interval import bias, interval, spread_range
from replay.session.pass_order import pass_order
from replay.session.question import Facts, Question
from replay.session.report import Outcome, by_rank, slowest, with_outlook, with_prediction
from replay.session.source import held_fixed
from replay.session.types import Answer, Progress
from replay.simulate.engine import simulate
from replay.whatif._pipeline_baseline import Simulated
from replay.whatif.pipeline import PipelineAnswer, PipelineQuestion, run
from replay.whatif.stragglers import Stragglers

TOPICS = (
    Topic("--pp, --vpp, --gbs, --schedule", True, "passes of every chunk were recorded"),
    Topic("--stragglers ideal", True, "every worker is compared with its peers"),
    Topic("--scale, --link", True, "passes and exchanges can be edited; op names as in the recording"),
    Topic(
        "--ep, --experts, --tp, --cp, --etp", False, "a pass is one op: what is inside was not recorded; give a trace"
    ),
    Topic("--dp, --mbs, --seq", False, "how passes and gradient sums change with them was not measured"),
)

NO_SINGLE_OP = "the passes keep their durations, so their order or the exchanges differ"


def answer(recording: PipelineRecording, question: Question, facts: Facts, progress: Progress) -> Answer:
    """Replay ``recording`` and answer ``question``; :class:`RefusedError` where that cannot be done honestly."""
    _check(question)
    progress("replaying")
    found = run(recording, _translated(question, facts))
    progress("reporting")
    if found.prediction is None and not question.is_empty:  # edits, or sizes that are the source's own
        return _edited(recording, found, question, facts)
    target = found.prediction.target if found.prediction else None
    return Answer(_result(recording, found, question, facts), _runs(found, target))


def inspect(recording: PipelineRecording, facts: Facts) -> Inspection:
    """What a recording holds and what can be asked of it."""
    found = run(recording, _translated(Question(), facts))
    model = {"layers": recording.layers} if recording.layers is not None else {}
    return extend(Inspection, _measured(recording, found), model=model, questions=TOPICS)


def _check(question: Question) -> None:
    if question.experts:
        raise RefusedError("--experts: a pipeline recording has no expert work to tell apart; give a trace")
    if question.stall:
        raise RefusedError("--stall: a pipeline recording has no host; lengthen passes with --scale")
    if (question.scale or question.link) and (question.layout or question.stragglers):
        raise RefusedError("--scale and --link on a pipeline recording are questions of their own; ask one at a time")


def _translated(question: Question, facts: Facts) -> PipelineQuestion:
    return PipelineQuestion(
        layout=question.layout,
        given=facts.layout,
        layers=facts.layers,
        microbatches=facts.microbatches,
        step=facts.step,
        stragglers=question.stragglers is not None,
        measured_step_ms=facts.measured_step_ms,
        force=facts.force,
    )


def _measured(recording: PipelineRecording, found: PipelineAnswer) -> Measured:
    """What a run and an inspection both say about a recording."""
    graph, timeline = found.replayed.graph, found.replayed.timeline
    parts = {
        "measured": breakdown(graph, measured_timeline(graph, timeline), graph.measured_step_ns),
        "replayed": breakdown(graph, timeline),
    }
    error = start_error_p95(graph, timeline)
    return Measured(
        input=replace(recording_facts(recording, found.step_used), steps=found.steps),
        health=health_facts(recording.health, graph),
        layout=LayoutFacts(found.source.to_json(), {}, (), found.evidence),
        measured_step_ms=ns_to_ms(found.measured_step_ns),
        measured_step_spread_pct=found.measured_spread_pct,
        replayed_step_ms=ns_to_ms(found.replayed.step_ns),
        replay_error_pct=abs(found.replay_error_pct),
        start_error_p95_pct=error.p95_pct if error else None,
        breakdown={name: slowest(part) for name, part in parts.items()},
        breakdown_mean={name: part.mean_ms() for name, part in parts.items()},
        breakdown_by_rank=by_rank(parts["measured"]),
        chunk_costs=tuple(
            ChunkCostRow(c.stage, c.chunk, c.phase, ns_to_ms(c.mean_ns), ns_to_ms(c.spread_ns), c.count)
            for c in found.chunk_costs
        ),
        collectives=collectives(graph),
        warnings=found.warnings,
    )


def _result(recording: PipelineRecording, found: PipelineAnswer, question: Question, facts: Facts) -> RunResult:
    """The whole answer about a recording, edits aside."""
    result = extend(
        RunResult,
        _measured(recording, found),
        question=question.options(),
        profiled_step_ms=ns_to_ms(found.replayed.graph.measured_step_ns) if facts.measured_step_ms else None,
        lifted_step_ms=ns_to_ms(found.lifted.step_ns) if found.lifted else None,
        lift_error_pct=abs(found.lift_error_pct) if found.lift_error_pct is not None else None,
        stragglers=_straggler_parts(found.stragglers) if found.stragglers else {},
        forced=found.forced,
    )
    prediction = found.prediction
    if prediction is None:
        return with_outlook(result, found.replayed.graph)
    target, (low, high) = prediction.target, prediction.interval_ns
    interval_ms = (ns_to_ms(low), ns_to_ms(high))
    result = replace(
        result,
        layout=LayoutFacts(
            found.source.to_json(), found.target.to_json(), held_fixed(found.source, found.target), found.evidence
        ),
        collectives=collectives(found.replayed.graph, target.graph),
        pass_order=pass_order(found.target),
    )
    step_ms = ns_to_ms(prediction.step_ns)
    return with_prediction(
        result, Outcome(target.graph, target.timeline, step_ms, interval_ms, prediction.interval_basis)
    )


def _straggler_parts(found: Stragglers) -> dict[str, object]:
    """Slowdown of the recorded steps, and what it would be with only one part as measured."""
    return {
        "slowdown": found.slowdown,
        "dp_rank": {str(rank): number for rank, number in found.by_dp_rank.items()},
        "stage": {str(stage): number for stage, number in found.by_stage.items()},
        "op_type": dict(found.by_op_type),
    }


def _edited(recording: PipelineRecording, found: PipelineAnswer, question: Question, facts: Facts) -> Answer:
    """Graph-level edits of the replayed step, whose replay is the gate (R6)."""
    graph = found.replayed.graph
    forced = gate.require("replayed", found.replay_error_pct, NO_SINGLE_OP, force=facts.force)
    edited = edit(graph, question)
    target = Simulated(edited, simulate(edited))
    step_ms = ns_to_ms(found.measured_step_ns) * target.step_ns / found.replayed.step_ns
    parts = (bias(found.replay_error_pct, "replay"), spread_range(found.measured_spread_pct))
    basis = tuple(part.basis for part in parts)
    result = _result(recording, found, question, facts)
    result = replace(
        result,
        layout=replace(result.layout, target=result.layout.source, held_fixed=held_fixed(found.source, found.source)),
        changes=changes(graph, edited, " ".join(question.options())),
        forced=forced,
    )
    outcome = Outcome(edited, target.timeline, step_ms, interval(step_ms, parts), basis)
    return Answer(with_prediction(result, outcome), _runs(found, target))


def _runs(found: PipelineAnswer, target: Simulated | None) -> tuple[Run, ...]:
    graph, timeline = found.replayed.graph, found.replayed.timeline
    runs = [Run("measured", graph, measured_timeline(graph, timeline)), Run("replayed", graph, timeline)]
    if target:
        runs.append(Run("predicted", target.graph, target.timeline))
    return tuple(runs)
