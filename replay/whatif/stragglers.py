"""What would the step cost without stragglers, and who causes them (``--stragglers ideal``).

Definitions of Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI '25): ideal
is a step in which every op takes what its type typically takes over all workers and steps: the mean for compute, the
median of the transfer for communication. Slowdown S = mean over steps of the simulated step / ideal. The part of a
data-parallel rank, stage or op type is the same ratio with only its ops kept at their measured durations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Bool, Int64, freeze
from replay.graph.types import Graph
from replay.program.pipeline_graph import durations_of
from replay.program.pipeline_program import PipelineProgram
from replay.program.worker_ops import COMMUNICATION
from replay.simulate.engine import Plan, plan, simulate
from replay.simulate.timeline import Timeline

OPTION = "--stragglers"
LEVEL = "pipeline"
_MEDIAN_TYPES = frozenset({*COMMUNICATION, "layernorm-grads-all-reduce"})
_JOINED = {
    "forward-send": "forward-pp-comm",
    "forward-recv": "forward-pp-comm",
    "backward-send": "backward-pp-comm",
    "backward-recv": "backward-pp-comm",
}


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Slowdown by stragglers; parts are slowdowns with only that part kept as measured (1 = causes nothing)."""

    steps: tuple[int, ...]
    simulated_ns: Int64  # every step with its measured durations
    ideal_ns: int
    slowdown: float
    by_dp_rank: Mapping[int, float]
    by_stage: Mapping[int, float]
    by_op_type: Mapping[str, float]
    ideal_graph: Graph
    ideal_timeline: Timeline

    def __post_init__(self) -> None:
        freeze(self.simulated_ns)


def ideal_workers(program: PipelineProgram) -> Stragglers:
    """Slowdown of a recording and its parts."""
    steps = program.steps.steady
    source = program.replay(program.steps.median)
    case = _Case(source.graph, plan(source.graph), durations_of(source, steps))
    types = np.array(source.op_types)
    ideal = typical_durations(case.measured, types, source.arrivals)
    timeline = simulate(source.graph.with_durations(ideal), plan=case.plan)
    joined = np.array([_JOINED.get(name, name) for name in source.op_types])
    simulated = case.step_times(np.ones(len(ideal), np.bool_), ideal)

    def parts(labels: npt.NDArray[np.generic]) -> dict[str, float]:
        means = {label: case.step_times(labels == label, ideal).mean() for label in np.unique(labels)}
        return {str(label): float(mean / timeline.step_ns) for label, mean in means.items()}

    return Stragglers(
        steps=tuple(step.step for step in steps),
        simulated_ns=simulated,
        ideal_ns=timeline.step_ns,
        slowdown=float(simulated.mean() / timeline.step_ns),
        by_dp_rank={int(key): value for key, value in parts(source.dp_rank).items()},
        by_stage={int(key): value for key, value in parts(source.stage).items()},
        by_op_type=parts(joined),
        ideal_graph=source.graph.with_durations(ideal),
        ideal_timeline=timeline,
    )


def typical_durations(measured: Int64, types: npt.NDArray[np.str_], arrivals: Bool) -> Int64:
    """Typical duration of every op from ``measured`` (steps, ops): one number per op type, 0 for arrivals."""
    typical = np.zeros(measured.shape[1], np.int64)
    for name in np.unique(types):
        ops = (types == name) & ~arrivals
        values = measured[:, ops]
        typical[ops] = round(float(np.median(values) if name in _MEDIAN_TYPES else values.mean()))
    return typical


@dataclass(frozen=True, slots=True)
class _Case:
    """One graph that ran in several steps."""

    graph: Graph
    plan: Plan
    measured: Int64  # (steps, ops)

    def step_times(self, kept: Bool, ideal: Int64) -> Int64:
        """Every step with ``kept`` ops as measured and the others ideal."""
        return np.array(
            [
                simulate(self.graph.with_durations(np.where(kept, row, ideal)), plan=self.plan).step_ns
                for row in self.measured
            ],
            np.int64,
        )
