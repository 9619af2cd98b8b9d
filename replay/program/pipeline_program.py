"""A pipeline recording lifted to a program: what passes, other ops and exchanges cost, buildable for any layout."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from replay.core.errors import RefusedError, TraceError
from replay.core.evidence import Grade
from replay.core.statistics import trimmed_mean
from replay.layout import Layout
from replay.program.p2p import ExchangeModel
from replay.program.p2p_learning import learn_exchange
from replay.program.pass_costs import PassCosts, costs_for, learn_costs
from replay.program.passes import pass_graph
from replay.program.pipeline_graph import Cost, PipelineGraph
from replay.program.real_messages import real_messages
from replay.program.recorded_order import scheduled
from replay.program.recorded_steps import (
    OpKey,
    Pass,
    RecordedStep,
    RecordedSteps,
    rank_orders,
    recorded_steps,
)
from replay.program.worker_ops import COMMUNICATION, TAIL, WorkerSpec, worker_graph
from replay.recording import PipelineRecording

_KNOWN_OTHERS = {*COMMUNICATION, *TAIL}
Price = Callable[[Pass | OpKey], Cost]


@dataclass(frozen=True, slots=True)
class Templates:
    """Typical costs of a recording's ops."""

    passes: PassCosts
    others: Callable[[OpKey], Cost]

    def prices(self, target: Layout, layers: int | None) -> Price:
        """What every op of ``target`` costs."""
        passes = costs_for(self.passes, target, layers)
        return lambda op: passes(op) if isinstance(op, Pass) else self.others(op)


@dataclass(frozen=True, slots=True)
class PipelineProgram:
    """What a recording says about its program. ``counts`` is empty when only whole passes were recorded."""

    source: Layout
    steps: RecordedSteps
    dp_ranks: tuple[int, ...]
    exchange: ExchangeModel
    counts: Mapping[tuple[int, str], int] = field(default_factory=dict)  # (stage, op type) → ops a step
    warnings: tuple[str, ...] = ()

    def graph(self, layout: Layout, price: Price, exchange: ExchangeModel | None = None) -> PipelineGraph:
        """One step of ``layout``, order from the schedule alone."""
        if not self.counts:
            return pass_graph(layout, exchange or self.exchange, price, self.dp_ranks)
        if layout.pp != self.source.pp:
            raise RefusedError(
                f"pp {self.source.pp} -> {layout.pp}: gradient and parameter collectives were recorded for "
                f"{self.source.pp} stages, and those of other stages cannot be told from them; keep pp"
            )
        return worker_graph(WorkerSpec(layout, self.dp_ranks, self.counts, price))

    def replay(self, step: RecordedStep) -> PipelineGraph:
        """The source layout with the measured durations of one step."""
        return self.graph(self.source, _free).of_step(step)

    def templates(self, steps: Sequence[RecordedStep]) -> Templates:
        """What passes and other ops typically cost over ``steps``."""
        others = _other_costs(self.graph(self.source, _free), steps) if self.counts else _free
        return Templates(learn_costs(steps, self.source), others)


def lift(recording: PipelineRecording, source: Layout | None = None) -> PipelineProgram:
    """The program of a recording; ``source`` is its layout with facts added.

    Raises :class:`TraceError` when the recorded ops are not those that the schedule needs, and :class:`RefusedError`
    when the passes run in no known schedule's order.
    """
    steps = recorded_steps(recording)
    dp_ranks = tuple(sorted({item.dp_rank for item in steps.steps[0].passes}))
    layout, order_warnings = scheduled(source or recording.layout, steps.median, dp_ranks)
    others = {key.op_type for step in steps.steps for key in step.others}
    if not others:
        exchange = learn_exchange(steps.steady, layout)
        return PipelineProgram(layout, steps, dp_ranks, exchange, warnings=order_warnings)
    orders = rank_orders(layout)
    counts, alike = _usual_ops([real_messages(step, layout, orders) for step in steps.steady])
    warnings = [*order_warnings]
    if left_out := len(steps.steady) - len(alike):
        warnings.append(f"{left_out} steps left out: their ops differ in number from those of the others")
    if unknown := sorted(others - _KNOWN_OTHERS):
        warnings.append(f"ops of unknown types are left out: {', '.join(unknown)}")
    kept = RecordedSteps((*steps.steps[: steps.warm_up], *alike), steps.warm_up)
    return PipelineProgram(layout, kept, dp_ranks, ExchangeModel(), counts, tuple(warnings))


def _free(op: Pass | OpKey) -> Cost:
    del op
    return Cost(0, Grade.MEASURED)


def _usual_ops(steps: Sequence[RecordedStep]) -> tuple[dict[tuple[int, str], int], tuple[RecordedStep, ...]]:
    """The most common ops of a worker by stage and type, and the steps that have them."""
    shapes = [Counter(key[:3] for key in step.others) for step in steps]
    (usual, _), *_ = Counter(frozenset(shape.items()) for shape in shapes).most_common()
    counts: dict[tuple[int, str], int] = {}
    for (dp_rank, stage, op_type), count in sorted(usual):
        if counts.setdefault((stage, op_type), count) != count:
            raise TraceError(
                f"stage {stage} ran {op_type} {count} times a step on data-parallel rank {dp_rank} and "
                f"{counts[stage, op_type]} times on another; the replicas of a stage must run the same ops"
            )
    alike = tuple(step for step, shape in zip(steps, shapes, strict=True) if frozenset(shape.items()) == usual)
    return counts, alike


def _other_costs(graph: PipelineGraph, steps: Sequence[RecordedStep]) -> Callable[[OpKey], Cost]:
    """Trimmed mean duration (of a communication: transfer) by stage and op type.

    A stage that never ran a type (a send that wraps to the first stage) takes the mean of those that did.
    """
    samples: dict[tuple[int, str], list[int]] = defaultdict(list)
    for step in steps:
        for op, duration, arrives in zip(graph.ops, graph.durations(step).duration_ns, graph.arrivals, strict=True):
            if isinstance(op, OpKey) and not arrives:
                samples[op.stage, op.op_type].append(int(duration))
    means = {key: float(trimmed_mean(values)) for key, values in samples.items()}
    by_type: dict[str, list[float]] = defaultdict(list)
    for (_, op_type), mean in means.items():
        by_type[op_type].append(mean)

    def cost(op: OpKey) -> Cost:
        if (op.stage, op.op_type) in means:
            return Cost(round(means[op.stage, op.op_type]), Grade.MEASURED)
        return Cost(round(float(np.mean(by_type[op.op_type]))), Grade.ASSUMED)

    return cost
