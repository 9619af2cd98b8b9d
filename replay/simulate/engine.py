"""Execute a graph: one topological order, then one forward pass. Deterministic, integer, no clock of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.core.columns import Int32, freeze
from replay.core.errors import GraphError
from replay.graph.types import Graph
from replay.simulate.deadlock import describe_deadlock
from replay.simulate.timeline import Timeline

_LATEST_NS = float(2**62)  # 146 years: sums below it cannot wrap in int64


@dataclass(frozen=True, slots=True)
class Plan:
    """An order in which every edge points forward; valid for every graph with the same edges, whatever its times."""

    order: Int32

    def __post_init__(self) -> None:
        freeze(self.order)


def plan(graph: Graph) -> Plan:
    """Order the ops of ``graph``; raises :class:`GraphError` naming who waits for whom when there is none."""
    from replay.simulate import kernels  # noqa: PLC0415 - numba takes 0.3 s to import, and --help needs none

    if len(graph) == 0:
        raise GraphError("nothing to run: the graph has no ops")
    _check_sources(graph)
    order = kernels.topological_order(_bare(graph.edges.source), _bare(graph.edges.offsets))
    if len(order) < len(graph):
        raise GraphError(describe_deadlock(graph, order))
    return Plan(order)


def simulate(graph: Graph, *, residuals: bool = False, plan: Plan | None = None) -> Timeline:
    """Execute ``graph``; :func:`replay.simulate.reference.simulate` states the semantics.

    ``residuals`` adds the delays that no edge explains (R5). ``plan`` is the order of a graph with the same edges.
    Raises :class:`GraphError` for an empty graph, a deadlock, negative durations and times that overflow.
    """
    from replay.simulate import kernels  # noqa: PLC0415 - see above

    chosen = _plan(graph) if plan is None else plan
    if len(chosen.order) != len(graph):
        raise GraphError(f"the plan orders {len(chosen.order)} ops, but the graph has {len(graph)}; make a new plan")
    delay = graph.residual_ns if residuals else np.zeros(len(graph), np.int64)
    _check_times(graph, delay)
    edges = graph.edges
    start, end, bound_by = kernels.longest_path(
        _bare(chosen.order),
        _bare(graph.duration_ns),
        _bare(delay),
        _bare(graph.ready_ns),
        _bare(edges.source),
        _bare(edges.lag_ns),
        _bare(edges.from_start),
        _bare(edges.offsets),
    )
    return Timeline(start, end, bound_by)


_plan = plan  # ``simulate`` has a parameter of that name


def _bare(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous read-only view: one array type, so each kernel is compiled once."""
    return freeze(np.ascontiguousarray(array).view())


def _check_sources(graph: Graph) -> None:
    source = graph.edges.source
    if len(source) and (source.min() < 0 or source.max() >= len(graph)):
        wrong = int(np.argmax((source < 0) | (source >= len(graph))))
        raise GraphError(f"edge {wrong} comes from op {source[wrong]}, but the graph has ops 0 to {len(graph) - 1}")


def _check_times(graph: Graph, delay: npt.NDArray[np.int64]) -> None:
    """Durations are not negative, and no path can leave the range of int64."""
    shortest = int(graph.duration_ns.min())
    if shortest < 0:
        op = int(graph.duration_ns.argmin())
        raise GraphError(f"{graph.describe(op)} has a negative duration of {shortest} ns")
    parts = (graph.duration_ns, delay, graph.edges.lag_ns)
    total = sum(float(np.abs(part).sum(dtype=np.float64)) for part in parts)
    if total + float(np.abs(graph.ready_ns).max()) > _LATEST_NS:
        raise GraphError("the times of the graph add up to more than 146 years; some duration or lag is not in ns")
