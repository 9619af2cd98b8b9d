"""The measured step as a graph and its replay: what every question about a trace starts from."""

from __future__ import annotations

from dataclasses import dataclass

from replay.graph.build import BuildOptions, build
from replay.graph.types import Graph
from replay.report.accuracy import StartError, measured_timeline, replay_error_pct, residual_pct, start_error_p95
from replay.session.question import Facts
from replay.simulate.engine import Plan, plan, simulate
from replay.simulate.timeline import Timeline
from replay.trace import Trace


@dataclass(frozen=True, slots=True)
class Baseline:
    """One step of a trace, replayed with and without the delays that no dependency explains."""

    trace: Trace
    graph: Graph
    plan: Plan
    measured: Timeline
    replayed: Timeline  # without residuals (R5)
    faithful: Timeline  # with residuals: the source of every ratio (R6)
    replay_error_pct: float
    start_error: StartError | None
    residual_pct: float
    step_durations_ns: tuple[int, ...]  # R0 spans of the steps in the trace; empty for fewer than two


def replay_trace(trace: Trace, facts: Facts) -> Baseline:
    """Build the graph of the chosen step and replay it."""
    graph = build(trace, BuildOptions(step=facts.step, marker=facts.step_marker))
    order = plan(graph)
    replayed = simulate(graph, plan=order)
    faithful = simulate(graph, residuals=True, plan=order)
    return Baseline(
        trace=trace,
        graph=graph,
        plan=order,
        measured=measured_timeline(graph, faithful),
        replayed=replayed,
        faithful=faithful,
        replay_error_pct=replay_error_pct(graph, replayed),
        start_error=start_error_p95(graph, replayed),
        residual_pct=residual_pct(graph, faithful),
        step_durations_ns=graph.health.spans_ns if len(graph.health.spans_ns) > 1 else (),
    )
