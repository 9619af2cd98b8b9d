"""``inspect``: what an input holds, how well it replays, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parsers import ReadOptions, read, run_description
from replay.core.errors import RefusedError
from replay.program.label import label
from replay.recording import PipelineRecording
from replay.report.ascend import ascend_facts
from replay.report.result import Inspection, LayoutFacts, Topic, extend
from replay.report.statistics import launch_coverage_pct, top_ops
from replay.report.structure import structure
from replay.runlog import RunLog
from replay.session import log_run, recording_run
from replay.session.baseline import Baseline, replay_trace
from replay.session.facts import health_facts, memory_facts, trace_facts
from replay.session.hardware import named_profile
from replay.session.program_level import program_topics
from replay.session.question import Facts
from replay.session.report import measured_part
from replay.session.source import Source, find_source
from replay.session.stated_layers import check_layers
from replay.session.types import Progress, no_progress
from replay.trace import Trace
from replay.whatif import link, scale, stall

NAMED_TARGETS = 12


def inspect(sources: Sequence[Path], facts: Facts, progress: Progress = no_progress) -> Inspection:
    """Everything that can be told about ``sources`` without a question."""
    progress("reading")
    recorded = read(sources, ReadOptions(trace_processor=facts.trace_processor))
    if isinstance(recorded, PipelineRecording):
        return recording_run.inspect(recorded, facts)
    if isinstance(recorded, RunLog):
        return log_run.inspect(recorded, facts)
    progress("building the graph")
    return _inspect_trace(recorded, find_source(recorded, facts, run_description.find(sources)), facts)


def _inspect_trace(trace: Trace, source: Source, facts: Facts) -> Inspection:
    try:
        baseline = replay_trace(trace, facts)
    except RefusedError as refusal:
        return _without_replay(trace, source, facts, str(refusal))
    labels = label(baseline.graph, trace, source.layout, source.model, source.assumed)
    check_layers(facts, labels, trace.ranks)
    source = source.with_found(labels.layout)
    return extend(
        Inspection,
        measured_part(baseline, source),
        model=source.model.to_json(),
        top_ops=top_ops(trace),
        launch_coverage_pct=launch_coverage_pct(trace),
        ascend=ascend_facts(trace, named_profile(trace, facts)),
        memory=memory_facts(trace, source.layout),
        questions=(*_graph_topics(baseline), *program_topics(baseline.graph, labels)),
        structure=structure(baseline.graph, labels),
    )


def _without_replay(trace: Trace, source: Source, facts: Facts, reason: str) -> Inspection:
    """What is left to say about a trace that holds no step."""
    return Inspection(
        input=trace_facts(trace, None),
        health=health_facts(trace.health),
        layout=LayoutFacts(source.layout.to_json(), {}, (), source.evidence),
        model=source.model.to_json(),
        top_ops=top_ops(trace),
        launch_coverage_pct=launch_coverage_pct(trace),
        ascend=ascend_facts(trace, named_profile(trace, facts)),
        memory=memory_facts(trace, source.layout),
        nothing_to_replay=reason,
    )


def _graph_topics(baseline: Baseline) -> tuple[Topic, ...]:
    """Graph-level what-ifs and what they can be pointed at."""
    topics = []
    for member, unit in ((scale, "op classes"), (link, "tiers"), (stall, "ranks with a host")):
        targets = member.targets(baseline.graph)
        shown = ", ".join((*targets[:NAMED_TARGETS], *(["..."] if len(targets) > NAMED_TARGETS else [])))
        topics.append(Topic(member.OPTION, bool(targets), f"{unit}: {shown}" if targets else f"the step has no {unit}"))
    return tuple(topics)
