"""Steps of a pipeline recording: its passes by label, which steps are steady, and the one to replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from replay.core.columns import Int64
from replay.core.errors import RefusedError, TraceError
from replay.layout import Layout
from replay.pipelines import ScheduleOrder, schedule
from replay.recording import PassKind, PipelineRecording

MOST_PASSES = 5_000_000  # of a step that is asked for
_WARM_UP_FACTOR = 1.5  # a leading step this far above the median still compiles, allocates or connects


PHASE_WORDS = {PassKind.FORWARD: "forward", PassKind.BACKWARD: "backward"}


class Pass(NamedTuple):
    """One forward or backward of one micro-batch through one chunk."""

    dp_rank: int
    stage: int
    phase: PassKind
    chunk: int
    microbatch: int

    @property
    def op_type(self) -> str:
        """Its type, by StragglerAnalysis' names."""
        return f"{PHASE_WORDS[self.phase]}-compute"


class OpKey(NamedTuple):
    """The ``order``-th op of a type other than compute in the step of a worker."""

    dp_rank: int
    stage: int
    op_type: str
    order: int


class Span(NamedTuple):
    """Measured times, ns from the step's begin."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One complete step: every pass with its measured span; ``step_ns`` from the first start to the last end."""

    step: int
    begin_ns: int
    step_ns: int
    passes: Mapping[Pass, Span]
    others: Mapping[OpKey, Span]


@dataclass(frozen=True, slots=True)
class RecordedSteps:
    """Steps in recorded order; ``warm_up`` leading ones are far above the median and not part of ``steady``."""

    steps: tuple[RecordedStep, ...]
    warm_up: int

    @property
    def steady(self) -> tuple[RecordedStep, ...]:
        """Steps after the warm-up."""
        return self.steps[self.warm_up :]

    @property
    def median(self) -> RecordedStep:
        """The steady step of median duration (the shorter one of two)."""
        ranked = sorted(self.steady, key=lambda step: (step.step_ns, step.step))
        return ranked[(len(ranked) - 1) // 2]

    def pick(self, step: int | None) -> RecordedStep:
        """Step number ``step``, or the median one."""
        if step is None:
            return self.median
        for candidate in self.steps:
            if candidate.step == step:
                return candidate
        known = ", ".join(str(candidate.step) for candidate in self.steps)
        raise TraceError(f"step {step} is not among the complete recorded steps {known}")


def rank_orders(layout: Layout) -> list[ScheduleOrder]:
    """Execution order of every pipeline rank, from (p, m, v, g) alone."""
    if layout.microbatches is None:
        raise TraceError("the number of micro-batches is not known; give --microbatches")
    if (passes := 2 * layout.pp * layout.vpp * layout.microbatches) > MOST_PASSES:
        raise RefusedError(
            f"{layout.microbatches} micro-batches are {passes:.1e} passes, and at most {MOST_PASSES:.0e} are simulated"
        )
    name = layout.schedule or ("interleaved" if layout.vpp > 1 else "1f1b")
    group = layout.group_size or layout.pp
    plan = schedule(name)
    return [plan.order(layout.pp, rank, layout.microbatches, layout.vpp, group) for rank in range(layout.pp)]


def recorded_steps(recording: PipelineRecording) -> RecordedSteps:
    """All steps of a recording. Raises :class:`TraceError` when there is none."""
    chunk, microbatch = _labels(recording)
    order = np.argsort(recording.step, kind="stable")
    bounds = np.flatnonzero(np.diff(recording.step[order])) + 1
    steps = tuple(_step(recording, rows, chunk, microbatch) for rows in np.split(order, bounds) if len(rows))
    if not steps:
        raise TraceError("the recording holds no complete step")
    limit = _WARM_UP_FACTOR * float(np.median([step.step_ns for step in steps]))
    warm_up = next((k for k, step in enumerate(steps) if step.step_ns <= limit), 0)
    return RecordedSteps(steps, warm_up)


def _step(recording: PipelineRecording, rows: Int64, chunk: Int64, microbatch: Int64) -> RecordedStep:
    begin = int(recording.start_ns[rows].min())
    start, duration = recording.start_ns[rows] - begin, recording.dur_ns[rows]
    passes: dict[Pass, Span] = {}
    others: dict[OpKey, Span] = {}
    for row, first, length in zip(rows.tolist(), start.tolist(), duration.tolist(), strict=True):
        worker, phase = (int(recording.dp_rank[row]), int(recording.stage[row])), PassKind(recording.kind[row])
        if phase in PHASE_WORDS:
            passes[Pass(*worker, phase, int(chunk[row]), int(microbatch[row]))] = Span(first, first + length)
        else:
            others[OpKey(*worker, recording.names[row], int(recording.order[row]))] = Span(first, first + length)
    step_ns = int((start + duration).max())
    return RecordedStep(int(recording.step[rows[0]]), begin, step_ns, passes, others)


def _labels(recording: PipelineRecording) -> tuple[Int64, Int64]:
    """Chunk and micro-batch of every row; where the format has none, the schedule tells them from the order."""
    chunk, microbatch = recording.chunk.astype(np.int64), recording.microbatch.astype(np.int64)
    if not ((chunk < 0) & np.isin(recording.kind, (PassKind.FORWARD, PassKind.BACKWARD))).any():
        return chunk, microbatch
    for rank, order in enumerate(rank_orders(recording.layout)):
        for phase in (PassKind.FORWARD, PassKind.BACKWARD):
            rows = (recording.stage == rank) & (recording.kind == phase)
            position = recording.order[rows]
            chunk[rows] = order.chunk[order.phase == phase][position]
            microbatch[rows] = order.microbatch[order.phase == phase][position]
    return chunk, microbatch
