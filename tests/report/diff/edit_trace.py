"""Edited recordings: the step of a trace with a known change in it, executed as the change would make it run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.core.columns import Bool
from replay.graph.types import DEVICE_OPS, Edges, Graph, OpKind, Rule
from replay.report.accuracy import measured_timeline
from replay.report.breakdown import breakdown
from replay.report.diff.types import Execution, Side
from replay.report.slices import Run
from replay.simulate.engine import simulate


def named(graph: Graph, name: str, kind: OpKind = OpKind.COMPUTE) -> Bool:
    """Ops of a kind whose name starts so."""
    fitting = np.array([candidate.startswith(name) for candidate in graph.names])
    return np.asarray(fitting[graph.name] & (graph.kind == kind))


def slowed(graph: Graph, ops: Bool, factor: float) -> Graph:
    """The step with ``ops`` taking ``factor`` times as long; everything that waits for them waits."""
    duration = np.where(ops, np.rint(graph.duration_ns * factor), graph.duration_ns).astype(np.int64)
    return _run(graph.with_durations(duration))


def stalled(graph: Graph, op: int, stall_ns: int) -> Graph:
    """The step with ``stall_ns`` more in one host op."""
    duration = graph.duration_ns.copy()
    duration[op] += stall_ns
    return _run(graph.with_durations(duration))


def synchronised(graph: Graph, after: int, cost_ns: int = 5_000) -> Graph:
    """The step with a ``cudaDeviceSynchronize`` after host op ``after``: its thread waits for all work launched."""
    edges, new, rank = graph.edges, len(graph), int(graph.rank[after])
    target = edges.target.astype(np.int64)
    following = target[(edges.source == after) & (edges.rule == Rule.HOST_ORDER)]
    launches = (edges.rule == Rule.LAUNCH) & (graph.rank[edges.source] == rank)
    earlier = graph.measured_start_ns[edges.source] <= graph.measured_start_ns[after]
    waited = _last_of_lanes(graph, np.unique(target[launches & earlier]))
    source = np.concatenate([edges.source, [after], np.full(len(following), new), np.repeat(waited, len(following))])
    into = np.concatenate([target, [new], following, np.tile(following, len(waited))])
    more = len(source) - len(edges)
    rule = [Rule.HOST_ORDER] * (1 + len(following)) + [Rule.HOST_SYNC] * (len(waited) * len(following))
    columns = {
        "duration_ns": cost_ns, "residual_ns": 0, "ready_ns": 0, "measured_start_ns": graph.measured_end_ns[after],
        "measured_end_ns": graph.measured_end_ns[after] + cost_ns, "lane": graph.lane[after], "rank": rank,
        "kind": int(OpKind.CALL), "name": len(graph.names), "event": -1, "comm": -1, "grade": 0,
    }  # fmt: skip
    grown = {
        key: np.append(getattr(graph, key), value).astype(getattr(graph, key).dtype) for key, value in columns.items()
    }
    built = Edges.build(
        new + 1, source, into, np.append(edges.lag_ns, np.zeros(more, np.int64)),
        np.append(edges.from_start, np.zeros(more, np.bool_)), np.append(edges.rule, rule).astype(np.int8),
        np.append(edges.recorded, np.ones(more, np.bool_)),
    )  # fmt: skip
    return _run(replace(graph, edges=built, names=(*graph.names, "cudaDeviceSynchronize"), **grown))


def _last_of_lanes(graph: Graph, ops: np.ndarray) -> np.ndarray:
    """The op of every device lane that ends last among ``ops`` (of a collective: its transfer)."""
    members = np.isin(graph.comm, graph.comm[ops][graph.comm[ops] >= 0]) & (graph.kind == OpKind.TRANSFER)
    ops = np.union1d(ops, np.flatnonzero(members & np.isin(graph.lane, graph.lane[ops])))
    ops = ops[np.isin(graph.kind[ops], DEVICE_OPS)]
    order = ops[np.lexsort((graph.measured_end_ns[ops], graph.lane[ops]))]
    return order[np.append(np.diff(graph.lane[order]) != 0, True)]


def _run(graph: Graph) -> Graph:
    """The graph as if it had been measured: with the times of its own simulation."""
    timeline = simulate(graph, residuals=True)
    return replace(
        graph,
        measured_start_ns=timeline.start_ns,
        measured_end_ns=timeline.end_ns,
        measured_step_ns=timeline.step_ns,
    )


def side_of(graph: Graph, like: Side, label: str) -> Side:
    """``graph`` as a side of a comparison, with the labels of ``like``."""
    assert like.execution is not None
    faithful = simulate(graph, residuals=True)
    measured = measured_timeline(graph, faithful)
    facts = like.execution.facts
    more = ("",) * (len(graph) - len(facts.phase))
    execution = Execution(
        run=Run(label, graph, measured),
        faithful=faithful,
        breakdown=breakdown(graph, measured, graph.measured_step_ns),
        facts=replace(facts, phase=facts.phase + more, role=facts.role + more),
        stage=like.execution.stage,
    )
    return replace(like, name=label, step_ns=graph.measured_step_ns, execution=execution)
