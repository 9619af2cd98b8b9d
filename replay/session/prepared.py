"""An input read and replayed once, for many questions about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Protocol

from parsers import ReadOptions, read, run_description
from parsers.run_description import RunDescription
from replay.core.units import ns_to_ms, percent
from replay.layout import Layout
from replay.recording import PipelineRecording
from replay.runlog import RunLog
from replay.session import log_run, recording_run, trace_run
from replay.session.baseline import Baseline, replay_trace
from replay.session.interval import Part, interval
from replay.session.interval_calibration import changed_sizes, device_of, load
from replay.session.question import Facts, Question
from replay.session.report import baseline_parts, outcome
from replay.session.source import Source, find_source
from replay.session.types import no_progress


@dataclass(frozen=True, slots=True)
class Predicted:
    """A predicted step, its 80 % interval and, from traces, what the interval is made of before calibration."""

    step_ms: float
    interval_ms: tuple[float, float] | None
    parts: tuple[Part, ...] = ()
    changed: tuple[str, ...] = ()  # sizes and edits, without what follows from them
    warnings: tuple[str, ...] = ()


class Prepared(Protocol):
    """An input that is ready to be asked."""

    @property
    def device(self) -> str:
        """What it was measured on, ``""`` where the input does not say."""

    @property
    def layout(self) -> Layout:
        """The layout it was measured with."""

    @property
    def overhead_pct(self) -> float | None:
        """What the profiler added to its step, where both steps were timed."""

    def predict(self, question: Question, facts: Facts) -> Predicted:
        """The answer that ``replay run`` gives. Raises what it raises."""


def prepare(sources: Sequence[Path], facts: Facts) -> Prepared:
    """Read ``sources`` and replay them. Raises what reading and replaying raise."""
    recorded = read(sources, ReadOptions(trace_processor=facts.trace_processor))
    if isinstance(recorded, RunLog):
        raise log_run.refuse(recorded)
    if isinstance(recorded, PipelineRecording):
        return _Recording(recorded)
    described = run_description.find(sources)
    baseline = replay_trace(recorded, facts)
    return _Trace(baseline, find_source(recorded, facts, described), described)


@dataclass(frozen=True, slots=True)
class _Trace:
    baseline: Baseline
    source: Source
    described: RunDescription

    @property
    def device(self) -> str:
        return self.baseline.trace.device

    @property
    def layout(self) -> Layout:
        return self.source.layout

    @property
    def overhead_pct(self) -> float | None:
        profiled, unprofiled = self.described.steps_ms, self.described.unprofiled_steps_ms
        if not profiled or not unprofiled:
            return None
        return percent(median(profiled) - median(unprofiled), median(unprofiled))

    def predict(self, question: Question, facts: Facts) -> Predicted:
        trace_run.check(question)
        asked = with_batch(question, self.source.layout)
        anchor_ms = facts.measured_step_ms or ns_to_ms(self.baseline.graph.measured_step_ns)
        if asked.is_empty:
            step_ms = ns_to_ms(self.baseline.replayed.step_ns)
            parts = baseline_parts(self.baseline, self.source)
            return Predicted(step_ms, interval(step_ms, load(device_of(self.baseline.trace)).apply(parts, ())), parts)
        prediction = trace_run.predict(self.baseline, self.source, asked, facts)
        found = outcome(self.baseline, self.source, prediction, asked, anchor_ms)
        layout = (prediction.source or self.source).layout
        changed = changed_sizes(layout, prediction.target or layout, asked)
        return Predicted(found.step_ms, found.interval_ms, found.parts, changed, prediction.warnings)


@dataclass(frozen=True, slots=True)
class _Recording:
    recording: PipelineRecording

    device = ""
    overhead_pct = None

    @property
    def layout(self) -> Layout:
        return self.recording.layout

    def predict(self, question: Question, facts: Facts) -> Predicted:
        asked = with_batch(question, self.recording.layout)
        result = recording_run.answer(self.recording, asked, facts, no_progress).result
        step_ms = result.predicted_step_ms or result.replayed_step_ms or 0.0
        return Predicted(step_ms, result.predicted_interval_ms, warnings=result.warnings)


def with_batch(question: Question, source: Layout) -> Question:
    """``question`` with the global batch that its number of micro-batches means: gbs = micro-batches x mbs x dp.

    A layout is stated with both; where only micro-batches are given, they are not those of the batch held fixed.
    """
    sizes = dict(question.layout)
    count = sizes.pop("microbatches", None)
    if count is None or "gbs" in sizes:
        return question
    target = replace(source, gbs=None, microbatches=None).change(**sizes)
    if target.mbs is None:
        return question
    return replace(question, layout={**sizes, "gbs": int(count) * target.mbs * target.dp})
