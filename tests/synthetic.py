"""Small graphs for tests: written op by op, or drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from replay.graph.types import CommTable, Edges, Graph, GraphHealth, OpKind, Rule
from replay.trace import CollectiveKind, Group, Lane


@dataclass(frozen=True)
class Op:
    """One op; ``after`` lists the ops it waits for as index, (index, lag) or (index, lag, "start")."""

    name: str
    duration: int
    after: Sequence[int | tuple[int, int] | tuple[int, int, str]] = ()
    rank: int = 0
    lane: str = "stream 7"
    kind: OpKind = OpKind.COMPUTE
    ready: int = 0
    residual: int = 0
    start: int = -1
    comm: int = -1
    rule: Rule = Rule.STREAM_ORDER


@dataclass(frozen=True)
class Comm:
    """One (collective, member) row."""

    kind: CollectiveKind
    group: int = -1
    nbytes: int = -1
    match: int = 0
    size: int = -1


def graph_of(
    ops: Sequence[Op], *, comms: Sequence[Comm] = (), groups: Sequence[Group] = (), step: int | None = None
) -> Graph:
    """The graph of a list of ops; ``step`` defaults to the latest measured end."""
    names = tuple(dict.fromkeys(op.name for op in ops))
    lanes = tuple(dict.fromkeys((op.rank, op.lane) for op in ops))
    after = [(*_edge(edge), target, op.rule) for target, op in enumerate(ops) for edge in op.after]
    source, lag, from_start, target, rule = (np.array(c, np.int64) for c in zip(*after, strict=True)) if after else (
        np.zeros(0, np.int64) for _ in range(5)
    )  # fmt: skip
    start = _column(op.start for op in ops)
    duration = _column(op.duration for op in ops)
    end = np.where(start >= 0, start + duration, -1)
    return Graph(
        duration_ns=duration,
        residual_ns=_column(op.residual for op in ops),
        ready_ns=_column(op.ready for op in ops),
        measured_start_ns=start,
        measured_end_ns=end,
        lane=_column(lanes.index((op.rank, op.lane)) for op in ops).astype(np.int32),
        rank=_column(op.rank for op in ops).astype(np.int32),
        kind=_column(op.kind for op in ops).astype(np.int8),
        name=_column(names.index(op.name) for op in ops).astype(np.int32),
        event=np.full(len(ops), -1, np.int64),
        comm=_column(op.comm for op in ops).astype(np.int32),
        grade=np.zeros(len(ops), np.int8),
        edges=Edges.build(
            len(ops),
            source,
            target,
            lag,
            from_start.astype(np.bool_),
            rule.astype(np.int8),
            np.ones(len(source), np.bool_),
        ),
        comms=comm_table(comms),
        names=names,
        lanes=tuple(Lane(rank, label.startswith("stream"), label) for rank, label in lanes),
        groups=tuple(groups),
        measured_step_ns=int(end.max(initial=0)) if step is None else step,
        health=GraphHealth(),
    )


def comm_table(comms: Sequence[Comm]) -> CommTable:
    """Columns of communication rows."""
    unknown = np.full(len(comms), -1, np.int64)
    return CommTable(
        kind=_column(c.kind for c in comms).astype(np.int8),
        group=_column(c.group for c in comms).astype(np.int32),
        nbytes=_column(c.nbytes for c in comms),
        match=_column(c.match for c in comms),
        size=_column(c.size for c in comms).astype(np.int32),
        seen=unknown.astype(np.int32),
        transfer_low_ns=unknown,
        transfer_high_ns=unknown,
    )


def permuted(graph: Graph, order: np.ndarray) -> Graph:
    """The same graph with op ``order[i]`` at place ``i``; each op keeps the order of its incoming edges."""
    place = np.argsort(order)
    edges = graph.edges
    rows = np.concatenate([np.arange(edges.offsets[i], edges.offsets[i + 1]) for i in order]).astype(np.int64)
    columns = {
        name: getattr(graph, name)[order]
        for name in ("duration_ns", "residual_ns", "ready_ns", "measured_start_ns", "measured_end_ns", "lane", "rank",
                     "kind", "name", "event", "comm", "grade")
    }  # fmt: skip
    moved = Edges.build(
        len(graph), place[edges.source[rows]], place[edges.target[rows]], edges.lag_ns[rows], edges.from_start[rows],
        edges.rule[rows], edges.recorded[rows],
    )  # fmt: skip
    return replace(graph, edges=moved, **columns)


@st.composite
def graphs(draw: st.DrawFn, *, max_ops: int = 20, max_ns: int = 1000) -> Graph:
    """Any acyclic graph, with lags of both signs, start-to-start edges, ready times and residuals."""
    times = st.integers(0, max_ns)
    ops: list[Op] = []
    for index in range(draw(st.integers(1, max_ops))):
        edge = st.tuples(
            st.integers(0, max(0, index - 1)), st.integers(-max_ns, max_ns), st.sampled_from(["start", "end"])
        )
        after = draw(st.lists(edge, max_size=4)) if index else []
        rank = draw(st.integers(0, 2))
        ops.append(Op(f"op{index}", draw(times), after, rank, ready=draw(times), residual=draw(times)))
    graph = graph_of(ops)
    return permuted(graph, np.array(draw(st.permutations(range(len(ops)))), np.int64))


def _edge(edge: int | tuple[int, int] | tuple[int, int, str]) -> tuple[int, int, bool]:
    parts = (edge,) if isinstance(edge, int) else edge
    return parts[0], parts[1] if len(parts) > 1 else 0, len(parts) > 2 and parts[2] == "start"


def _column(values: object) -> np.ndarray:
    return np.array(list(values), np.int64)  # type: ignore[call-overload]
