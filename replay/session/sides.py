"""One side of a comparison, from whatever it was saved as: a prediction, a trace, a pipeline recording, a log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from parsers import ReadOptions, read, run_description
from replay.core.errors import TraceError
from replay.core.units import NS_PER_MS
from replay.graph.types import Graph
from replay.layout import Layout
from replay.program.groups import coordinates
from replay.program.label import label
from replay.program.types import Labels, Phase, Role
from replay.recording import PipelineRecording
from replay.report.breakdown import breakdown
from replay.report.diff.parts import of_rank
from replay.report.diff.types import Execution, OpFacts, Side
from replay.report.slices import Run
from replay.runlog import RunLog
from replay.session import log_run, recording_run, saved
from replay.session.baseline import Baseline, replay_trace
from replay.session.question import Facts, Question
from replay.session.report import measured_part, throughput
from replay.session.source import Source, find_source
from replay.session.types import Progress, no_progress
from replay.simulate.engine import simulate

_PASS = re.compile(r"(forward|backward\S*|weight) \d+(.*)")


def load(path: Path, facts: Facts, run_label: str, progress: Progress = no_progress) -> Side:
    """The step in ``path``. Raises :class:`TraceError` where there is none."""
    progress(f"reading {path.name}")
    if saved.is_saved(path):
        return saved.load(path)
    recorded = read([path], ReadOptions(trace_processor=facts.trace_processor))
    if isinstance(recorded, PipelineRecording):
        return _from_recording(recorded, path, facts, run_label)
    if isinstance(recorded, RunLog):
        return _from_log(recorded, path, facts)
    source = find_source(recorded, facts, run_description.find([path]))
    progress(f"replaying {path.name}")
    return _from_trace(replay_trace(recorded, facts), source, path, run_label)


def _from_trace(baseline: Baseline, source: Source, path: Path, run_label: str) -> Side:
    graph = baseline.graph
    labels = label(graph, baseline.trace, source.layout, source.model, source.assumed)
    source = source.with_found(labels.layout)
    measured = measured_part(baseline, source)
    execution = Execution(
        run=Run(run_label, graph, baseline.measured),
        faithful=baseline.faithful,
        breakdown=breakdown(graph, baseline.measured, graph.measured_step_ns),
        facts=_op_facts(labels),
        stage=_stages(graph, source.layout),
    )
    return _with_parts(
        execution,
        source="trace",
        name=path.name,
        step_ns=graph.measured_step_ns,
        step_used=measured.input.step_used,
        spread_pct=measured.measured_step_spread_pct,
        layout=source.layout.to_json(),
        numbers=throughput(source.layout, source.layout.seq or source.model.seq, graph.measured_step_ns / NS_PER_MS),
        warnings=(*measured.health.warnings, *measured.warnings),
    )


def _from_recording(recording: PipelineRecording, path: Path, facts: Facts, run_label: str) -> Side:
    found = recording_run.answer(recording, Question(), facts, no_progress)
    run = found.runs[0]
    step_ns = run.graph.measured_step_ns
    stages = int(found.result.layout.source.get("pp") or 1)
    execution = Execution(
        run=Run(run_label, run.graph, run.timeline),
        faithful=simulate(run.graph, residuals=True),
        breakdown=breakdown(run.graph, run.timeline, step_ns),
        facts=_pass_facts(run.graph, stages),
        stage={int(rank): int(rank) % stages for rank in set(run.graph.rank.tolist())},
    )
    result = found.result
    return _with_parts(
        execution,
        source="recording",
        name=path.name,
        step_ns=step_ns,
        step_used=result.input.step_used,
        spread_pct=result.measured_step_spread_pct,
        layout=result.layout.source,
        warnings=result.warnings,
    )


def _from_log(log: RunLog, path: Path, facts: Facts) -> Side:
    found = log_run.inspect(log, facts)
    if found.measured_step_ms is None:
        raise TraceError(f"{path.name}: the log holds no iteration with its time, so there is no step to compare")
    timers = {} if found.log is None else {f"timer_{row.name}_ms": row.max_ms for row in found.log.timers}
    return Side(
        source="log",
        name=path.name,
        step_ns=round(found.measured_step_ms * NS_PER_MS),
        step_used=found.input.step_used,
        spread_pct=found.measured_step_spread_pct,
        layout=found.layout.source,
        numbers={**found.metrics, "peak_gib": found.memory.get("peak_gib"), **timers},
        warnings=(*found.health.warnings, *found.warnings),
    )


def _with_parts(execution: Execution, **known: Any) -> Side:
    slowest = execution.breakdown.slowest_rank
    return Side(execution=execution, rank=slowest, parts_ns=of_rank(execution.breakdown, slowest), **known)


def _op_facts(labels: Labels) -> OpFacts:
    phases = [phase.name.lower() if phase else "" for phase in Phase]
    roles = [role.name.lower() if role else "" for role in Role]
    return OpFacts(
        tuple(phases[phase] for phase in labels.phase.tolist()), tuple(roles[role] for role in labels.role.tolist())
    )


def _pass_facts(graph: Graph, stages: int) -> OpFacts:
    """Passes without the number of their micro-batch; the module of a recording is the stage."""
    words = [_PASS.sub(r"\1 pass\2", name) if _PASS.match(name) else "" for name in graph.names]
    nothing = ("",) * len(graph)
    names = tuple(words[name] for name in graph.name.tolist())
    return OpFacts(nothing, tuple(f"stage {rank % stages}" for rank in graph.rank.tolist()), names)


def _stages(graph: Graph, layout: Layout) -> dict[int, int]:
    """Pipeline stage of every rank, where there is more than one."""
    if layout.pp == 1:
        return {}
    return {int(rank): coordinates(layout, int(rank))["pp"] for rank in set(graph.rank.tolist())}
