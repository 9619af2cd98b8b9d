"""Puts a baseline and a prediction into the values that are printed and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from replay.core.units import ns_to_ms
from replay.graph.types import Graph
from replay.layout import Layout
from replay.report.breakdown import Breakdown, breakdown, evidence_share
from replay.report.diff.means import op_means
from replay.report.result import LayoutFacts, Measured, Numbers, RunResult, Sensitivity, extend
from replay.report.statistics import collectives
from replay.session.baseline import Baseline
from replay.session.facts import health_facts, trace_facts
from replay.session.interval import FEW_STEPS, Part, bias, interval, spread_pct, start_error, step_spread
from replay.session.interval_calibration import changed_sizes, device_of, load
from replay.session.pass_order import pass_order
from replay.session.prediction import Prediction
from replay.session.question import Facts, Question
from replay.session.source import Source, held_fixed
from replay.simulate.timeline import Timeline
from replay.whatif.sensitivity import sensitivities

MS_PER_S = 1_000


def measured_part(baseline: Baseline, source: Source) -> Measured:
    """What a run and an inspection both say about a trace."""
    graph = baseline.graph
    parts = {
        "measured": breakdown(graph, baseline.measured, graph.measured_step_ns),
        "replayed": breakdown(graph, baseline.replayed),
    }
    error = baseline.start_error
    return Measured(
        input=trace_facts(baseline.trace, graph.health),
        health=health_facts(baseline.trace.health, graph),
        layout=LayoutFacts(source.layout.to_json(), {}, (), source.evidence),
        measured_step_ms=ns_to_ms(graph.measured_step_ns),
        measured_step_spread_pct=spread_pct(_steps_ns(baseline, source)),
        replayed_step_ms=ns_to_ms(baseline.replayed.step_ns),
        replay_error_pct=baseline.replay_error_pct,
        start_error_p95_pct=error.p95_pct if error else None,
        residual_pct=baseline.residual_pct,
        breakdown={name: slowest(part) for name, part in parts.items()},
        breakdown_mean={name: part.mean_ms() for name, part in parts.items()},
        breakdown_by_rank=by_rank(parts["measured"]),
        collectives=collectives(graph),
    )


def run_result(
    baseline: Baseline, source: Source, prediction: Prediction | None, question: Question, facts: Facts
) -> RunResult:
    """The whole answer about a trace."""
    source = (prediction and prediction.source) or source
    result = extend(RunResult, measured_part(baseline, source), question=question.options())
    if facts.measured_step_ms is not None:
        result = replace(result, measured_step_ms=facts.measured_step_ms, profiled_step_ms=result.measured_step_ms)
    seq, anchor_ms = source.layout.seq or source.model.seq, result.measured_step_ms or 0.0
    if prediction is None:
        return with_outlook(replace(result, metrics=throughput(source.layout, seq, anchor_ms)), baseline.graph)
    target, lift = prediction.target or source.layout, prediction.lift
    result = replace(
        result,
        layout=LayoutFacts(
            source.layout.to_json(),
            target.to_json(),
            held_fixed(source.layout, target),
            {**source.evidence, **prediction.evidence},
        ),
        lifted_step_ms=ns_to_ms(lift.step_ns) if lift else None,
        lift_error_pct=lift.error_pct if lift else None,
        unassigned_pct=lift.unassigned_pct if lift else None,
        collectives=collectives(baseline.graph, prediction.graph),
        changes=prediction.changes,
        chunk_costs=prediction.chunk_costs,
        warnings=prediction.warnings,
        forced=prediction.forced,
    )
    found = outcome(baseline, source, prediction, question, anchor_ms)
    result = replace(result, metrics=throughput(target, seq, found.step_ms), pass_order=pass_order(target))
    return with_prediction(result, found)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A predicted step and the execution behind it."""

    graph: Graph
    timeline: Timeline
    step_ms: float
    interval_ms: tuple[float, float]
    basis: tuple[str, ...]
    parts: tuple[Part, ...] = ()  # of the interval, before calibration


def outcome(
    baseline: Baseline, source: Source, prediction: Prediction, question: Question, anchor_ms: float
) -> Outcome:
    """The predicted step: ``anchor_ms``, the measured step, times the prediction's ratio (R6); and its interval."""
    source = prediction.source or source
    parts = (*baseline_parts(baseline, source), *prediction.parts)
    changed = changed_sizes(source.layout, prediction.target or source.layout, question)
    known = load(device_of(baseline.trace)).apply(parts, changed)
    step_ms = anchor_ms * prediction.ratio
    basis = tuple(part.basis for part in known)
    return Outcome(prediction.graph, prediction.timeline, step_ms, interval(step_ms, known), basis, parts)


def with_prediction(result: RunResult, found: Outcome) -> RunResult:
    """``result`` with the predicted step; its breakdown is scaled so that the states sum to the predicted step."""
    after = breakdown(found.graph, found.timeline)
    factor = found.step_ms / ns_to_ms(found.timeline.step_ns)
    result = replace(
        result,
        predicted_step_ms=found.step_ms,
        predicted_interval_ms=found.interval_ms,
        speedup=(result.measured_step_ms or 0.0) / found.step_ms,
        interval_basis=found.basis,
        breakdown={**result.breakdown, "predicted": _times(slowest(after), factor)},
        breakdown_mean={**result.breakdown_mean, "predicted": _times(after.mean_ms(), factor)},
    )
    return with_outlook(result, found.graph)


def with_outlook(result: RunResult, graph: Graph) -> RunResult:
    """``result`` with the evidence, the sensitivities and the ops of the graph that its last number comes from."""
    return replace(
        result, evidence_share=evidence_share(graph), sensitivity=sensitivity_rows(graph), ops=op_means(graph)
    )


def _steps_ns(baseline: Baseline, source: Source) -> tuple[int, ...]:
    """Steps to learn the spread from: those of the trace, else those timed beside it."""
    return baseline.step_durations_ns if len(baseline.step_durations_ns) >= FEW_STEPS else source.steps_ns


def baseline_parts(baseline: Baseline, source: Source) -> tuple[Part, ...]:
    """Uncertainty that every prediction from this baseline shares."""
    parts = [step_spread(_steps_ns(baseline, source)), bias(baseline.replay_error_pct, "replay")]
    if baseline.start_error:
        parts.append(start_error(baseline.start_error.p95_pct))
    return tuple(parts)


def slowest(part: Breakdown) -> dict[str, float | int | None]:
    """Milliseconds by state of the slowest rank, and which rank that is."""
    return {"rank": part.slowest_rank, **part.of_rank_ms(part.slowest_rank)}


def by_rank(part: Breakdown) -> dict[str, dict[str, float]]:
    """Milliseconds by state of every rank."""
    return {str(rank): part.of_rank_ms(rank) for rank in part.ranks}


def throughput(layout: Layout, seq: int | None, step_ms: float) -> dict[str, float | int | None]:
    """Tokens a second, tokens = global batch x sequence; ``None`` where either is not known."""
    tokens = None if layout.gbs is None or seq is None else layout.gbs * seq / (step_ms / MS_PER_S)
    per_device = None if tokens is None else tokens / layout.world_size
    return {"tokens_per_s": tokens, "tokens_per_s_per_device": per_device, "mfu": None}


def _times(numbers: Numbers, factor: float) -> Mapping[str, float | int | None]:
    """Milliseconds, each times ``factor``; the rank stays."""
    return {name: value if name == "rank" or value is None else value * factor for name, value in numbers.items()}


def sensitivity_rows(graph: Graph) -> tuple[Sensitivity, ...]:
    """Effects of ± 10 %, largest first."""
    return tuple(
        Sensitivity(effect.parameter, f"x{effect.factor:g}", ns_to_ms(effect.step_change_ns), effect.step_change_pct)
        for effect in sensitivities(graph)
    )
