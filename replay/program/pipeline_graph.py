"""A pipeline step as a graph whose ops know which recorded op they are, and the measured times of a step on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int32, Int64
from replay.core.errors import TraceError
from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind
from replay.program.draft import Measured, with_measured
from replay.program.recorded_steps import OpKey, Pass, RecordedStep, Span


@dataclass(frozen=True, slots=True)
class Cost:
    """Duration of an op and how it is known."""

    duration_ns: int
    grade: Grade


@dataclass(frozen=True, slots=True)
class PipelineGraph:
    """Op ``i`` of ``graph`` is pass or other op ``ops[i]``; a communication's arrival and transfer share one."""

    graph: Graph
    ops: tuple[Pass | OpKey, ...]

    @property
    def dp_rank(self) -> Int32:
        """Data-parallel rank of every op."""
        return np.array([op.dp_rank for op in self.ops], np.int32)

    @property
    def stage(self) -> Int32:
        """Pipeline rank of every op."""
        return np.array([op.stage for op in self.ops], np.int32)

    @property
    def arrivals(self) -> Bool:
        """True for the arrivals of communication, which take no time."""
        return np.asarray(self.graph.kind == OpKind.ARRIVAL)

    @property
    def op_types(self) -> tuple[str, ...]:
        """Type of every op, by the recording's names."""
        return tuple(op.op_type for op in self.ops)

    def priced(self, price: Callable[[Pass | OpKey], Cost]) -> Int64:
        """Duration of every op; an arrival takes no time."""
        durations = [price(op).duration_ns for op in self.ops]
        return np.where(self.arrivals, 0, np.array(durations, np.int64))

    def durations(self, step: RecordedStep) -> Measured:
        """Measured starts, ends and durations of a step; a transfer lasts from its last member's arrival (R3).

        Raises :class:`TraceError` naming the op that the step lacks.
        """
        spans = np.array([self._span(step, op) for op in self.ops], np.int64).reshape(-1, 2)
        start, end = spans.T.copy()
        graph = self.graph
        is_arrival, is_transfer = (graph.kind == kind for kind in (OpKind.ARRIVAL, OpKind.TRANSFER))
        end[is_arrival] = start[is_arrival]
        if is_transfer.any():
            match = graph.comms.match[graph.comm[is_transfer]]
            latest = np.zeros(int(match.max()) + 1, np.int64)
            np.maximum.at(latest, match, start[is_transfer])
            start[is_transfer] = np.minimum(latest[match], end[is_transfer])
        return Measured(f"step {step.step}", step.step_ns, start, end, end - start)

    def of_step(self, step: RecordedStep) -> PipelineGraph:
        """The same ops with the durations and measured times of ``step``."""
        return PipelineGraph(with_measured(self.graph, self.durations(step)), self.ops)

    @staticmethod
    def _span(step: RecordedStep, op: Pass | OpKey) -> Span:
        found = step.passes.get(op) if isinstance(op, Pass) else step.others.get(op)
        if found is None:
            raise TraceError(
                f"step {step.step} has no {op.op_type} number {op.order if isinstance(op, OpKey) else op.microbatch} "
                f"on stage {op.stage} of data-parallel rank {op.dp_rank}; the schedule needs one"
            )
        return found


def durations_of(graph: PipelineGraph, steps: Sequence[RecordedStep]) -> Int64:
    """Durations of every step, (steps, ops)."""
    return np.stack([graph.durations(step).duration_ns for step in steps])


def out_of_order(step: RecordedStep, order: Sequence[Pass]) -> int:
    """Passes of one worker that it ran at another place than ``order`` says."""
    recorded = sorted(order, key=lambda item: step.passes[item])
    return sum(ran != planned for ran, planned in zip(recorded, order, strict=True))
