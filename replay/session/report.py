"""Puts a baseline and a prediction into the values that are printed and written."""

from __future__ import annotations

from collections.abc import Mapping

from replay.core.units import ns_to_ms
from replay.graph.types import Graph
from replay.report.breakdown import Breakdown, breakdown, evidence_share
from replay.report.result import LayoutFacts, Measured, Numbers, RunResult, Sensitivity, extend
from replay.report.statistics import collectives
from replay.session.baseline import Baseline
from replay.session.facts import health_facts, trace_facts
from replay.session.interval import Part, bias, interval, spread_pct, start_error, step_spread
from replay.session.prediction import Prediction
from replay.session.question import Facts, Question
from replay.session.source_layout import SourceLayout, held_fixed
from replay.whatif.sensitivity import sensitivities


def measured_part(baseline: Baseline, source: SourceLayout) -> Measured:
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
        measured_step_spread_pct=spread_pct(baseline.step_durations_ns),
        replayed_step_ms=ns_to_ms(baseline.replayed.step_ns),
        replay_error_pct=baseline.replay_error_pct,
        start_error_p95_pct=error.p95_pct if error else None,
        residual_pct=baseline.residual_pct,
        breakdown={name: slowest(part) for name, part in parts.items()},
        breakdown_mean={name: part.mean_ms() for name, part in parts.items()},
        collectives=collectives(graph),
    )


def run_result(
    baseline: Baseline, source: SourceLayout, prediction: Prediction | None, question: Question, facts: Facts
) -> RunResult:
    """The whole answer about a trace."""
    measured = measured_part(baseline, source)
    graph = prediction.graph if prediction else baseline.graph
    more: dict[str, object] = {
        "evidence_share": evidence_share(graph),
        "sensitivity": sensitivity_rows(graph),
        "question": question.options(),
    }
    if facts.measured_step_ms is not None:
        more |= {"measured_step_ms": facts.measured_step_ms, "profiled_step_ms": measured.measured_step_ms}
    if prediction is None:
        return extend(RunResult, measured, **more)
    anchor_ms = facts.measured_step_ms or ns_to_ms(baseline.graph.measured_step_ns)
    return extend(RunResult, measured, **more | _predicted(baseline, source, prediction, measured, anchor_ms))


def _predicted(
    baseline: Baseline, source: SourceLayout, prediction: Prediction, measured: Measured, anchor_ms: float
) -> dict[str, object]:
    """Fields that only a prediction has."""
    predicted_ms = anchor_ms * prediction.ratio
    parts = (*baseline_parts(baseline), *prediction.parts)
    after = breakdown(prediction.graph, prediction.timeline)
    factor = predicted_ms / ns_to_ms(prediction.timeline.step_ns)
    target = prediction.target or source.layout
    lift = prediction.lift
    return {
        "layout": LayoutFacts(
            source.layout.to_json(), target.to_json(), held_fixed(source.layout, target), source.evidence
        ),
        "lifted_step_ms": ns_to_ms(lift.step_ns) if lift else None,
        "lift_error_pct": lift.error_pct if lift else None,
        "unassigned_pct": lift.unassigned_pct if lift else None,
        "predicted_step_ms": predicted_ms,
        "predicted_interval_ms": interval(predicted_ms, parts),
        "speedup": anchor_ms / predicted_ms,
        "interval_basis": tuple(part.basis for part in parts),
        "breakdown": {**measured.breakdown, "predicted": times(slowest(after), factor)},
        "breakdown_mean": {**measured.breakdown_mean, "predicted": times(after.mean_ms(), factor)},
        "collectives": collectives(baseline.graph, prediction.graph),
        "changes": prediction.changes,
        "warnings": prediction.warnings,
        "forced": prediction.forced,
    }


def baseline_parts(baseline: Baseline) -> tuple[Part, ...]:
    """Uncertainty that every prediction from this baseline shares."""
    parts = [step_spread(baseline.step_durations_ns), bias(baseline.replay_error_pct, "replay")]
    if baseline.start_error:
        parts.append(start_error(baseline.start_error.p95_pct))
    return tuple(parts)


def slowest(part: Breakdown) -> dict[str, float | int | None]:
    """Milliseconds by state of the slowest rank, and which rank that is."""
    return {"rank": part.slowest_rank, **part.of_rank_ms(part.slowest_rank)}


def times(numbers: Numbers, factor: float) -> Mapping[str, float | int | None]:
    """Milliseconds scaled so that the states sum to the predicted step, as they do to the simulated one."""
    return {name: value if name == "rank" or value is None else value * factor for name, value in numbers.items()}


def sensitivity_rows(graph: Graph) -> tuple[Sensitivity, ...]:
    """Effects of ± 10 %, largest first."""
    return tuple(
        Sensitivity(effect.parameter, f"x{effect.factor:g}", ns_to_ms(effect.step_change_ns), effect.step_change_pct)
        for effect in sensitivities(graph)
    )
