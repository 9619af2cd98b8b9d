"""One side of a comparison, from whatever it was saved as: a prediction, a trace, a pipeline recording, a log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson

from parsers import ReadOptions, read, run_description
from replay.core.errors import TraceError
from replay.core.units import NS_PER_MS
from replay.graph.types import Graph
from replay.layout import Layout
from replay.program.groups import coordinates
from replay.program.label import label
from replay.program.types import Labels, Phase, Role
from replay.recording import PipelineRecording
from replay.report.breakdown import State, breakdown
from replay.report.diff.parts import of_rank
from replay.report.diff.types import Execution, OpFacts, Side
from replay.report.result import OpMean
from replay.report.slices import Run
from replay.runlog import RunLog
from replay.session import log_run, recording_run
from replay.session.baseline import Baseline, replay_trace
from replay.session.question import Facts, Question
from replay.session.report import measured_part, throughput
from replay.session.source import Source, find_source
from replay.session.types import Progress, no_progress
from replay.simulate.engine import simulate

_PASS = re.compile(r"(forward|backward\S*|weight) \d+(.*)")
HEAD_BYTES = 4096  # a saved prediction names its schema first


def load(path: Path, facts: Facts, run_label: str, progress: Progress = no_progress) -> Side:
    """The step in ``path``. Raises :class:`TraceError` where there is none."""
    progress(f"reading {path.name}")
    if _is_prediction(path):
        return _from_prediction(path)
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
    measured = measured_part(baseline, source)
    execution = Execution(
        run=Run(run_label, graph, baseline.measured),
        faithful=baseline.faithful,
        breakdown=breakdown(graph, baseline.measured, graph.measured_step_ns),
        facts=_op_facts(label(graph, baseline.trace, source.layout, source.model)),
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


def _is_prediction(path: Path) -> bool:
    if path.is_dir() or not path.name.endswith(".json"):
        return False
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return b'"schema"' in head and b'"traceEvents"' not in head


def _from_prediction(path: Path) -> Side:
    """The predicted step of a saved result; its replayed (else measured) step where nothing was asked."""
    document = _document(path)
    for kind in ("predicted", "replayed", "measured"):
        step_ms = document.get(f"{kind}_step_ms")
        if isinstance(step_ms, (int, float)):
            break
    else:
        raise TraceError(f"{path.name}: a result of replay without any step; give one that predicts or replays a step")
    step_ns = round(step_ms * NS_PER_MS)
    states = document.get("breakdown", {}).get(kind) or {}
    layout = document.get("layout", {})
    ops = msgspec.convert(document.get("ops", ()), tuple[OpMean, ...])
    metrics = document.get("metrics", {}) if kind == "predicted" else {}
    return Side(
        source="prediction",
        name=path.name,
        step_ns=step_ns,
        step_used=f"{kind} step",
        interval_ns=_interval_ns(document) if kind == "predicted" else None,
        parts_ns=_whole_ns(states, step_ns),
        rank=states.get("rank"),
        layout=layout.get("target") or layout.get("source") or {},
        numbers={**metrics, "peak_gib": document.get("memory", {}).get("peak_gib")},
        ops=ops,
        warnings=tuple(document.get("warnings", ())),
    )


def _interval_ns(document: Mapping[str, Any]) -> tuple[int, int] | None:
    bounds = document.get("predicted_interval_ms")
    return (round(bounds[0] * NS_PER_MS), round(bounds[1] * NS_PER_MS)) if bounds else None


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise TraceError(f"{path.name}: {error}; save the prediction again with -o {path.name}") from None
    if not isinstance(document, dict) or document.get("schema") != 1:
        raise TraceError(f"{path.name}: not a result of schema 1; save the prediction again with this version")
    return document


def _whole_ns(states: Mapping[str, float | None], step_ns: int) -> dict[str, int]:
    """Milliseconds by state as whole ns that sum to the step where they did so in ms: rounding goes to the largest."""
    parts = {state.label: round((states.get(state.label) or 0.0) * NS_PER_MS) for state in State} if states else {}
    rest = step_ns - sum(parts.values())
    if parts and abs(rest) <= len(parts):
        largest = max(parts, key=lambda key: parts[key])
        parts[largest] += rest
    return parts
