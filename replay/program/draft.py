"""A graph being written op by op; :meth:`Draft.build` freezes it, :func:`with_measured` adds what a step measured."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from replay.core.columns import Int64, Interner
from replay.core.evidence import Grade
from replay.graph.types import CommTable, Edges, Graph, GraphHealth, OpKind, Rule
from replay.trace import CollectiveKind, Group, Lane


@dataclass(frozen=True, slots=True)
class DraftComm:
    """One member of a collective; members with equal ``match`` belong together."""

    kind: CollectiveKind
    group: str
    match: int
    size: int


@dataclass(frozen=True, slots=True)
class DraftOp:
    """One op, not measured yet."""

    name: str
    rank: int
    lane: str
    kind: OpKind
    duration_ns: int
    grade: Grade = Grade.MEASURED
    comm: int = -1


@dataclass
class Draft:
    """Ops and edges collected so far; edges may name ops in any order."""

    ops: list[DraftOp] = field(default_factory=list)
    edges: list[tuple[int, int, int, Rule]] = field(default_factory=list)  # source, target, lag ns, rule
    comms: list[DraftComm] = field(default_factory=list)

    def op(self, op: DraftOp) -> int:
        """Add an op; its index."""
        self.ops.append(op)
        return len(self.ops) - 1

    def edge(self, source: int, target: int, rule: Rule, lag_ns: int = 0) -> None:
        """``target`` starts no earlier than the end of ``source`` plus the lag."""
        self.edges.append((source, target, lag_ns, rule))

    def comm(self, row: DraftComm) -> int:
        """Add a member of a collective; its index, for the member's arrival and transfer."""
        self.comms.append(row)
        return len(self.comms) - 1

    def build(self, label: str) -> Graph:
        """The frozen graph, without measured times; ``label`` says which step it is."""
        n = len(self.ops)
        columns = np.array(self.edges, np.int64).reshape(-1, 4).T
        source, target, lag, rule = (np.ascontiguousarray(column) for column in columns)
        names, groups = Interner(), Interner(row.group for row in self.comms)
        lanes = {key: index for index, key in enumerate(dict.fromkeys((op.rank, op.lane) for op in self.ops))}
        recorded = np.zeros(len(source), np.bool_)
        return Graph(
            duration_ns=self._ints("duration_ns"),
            residual_ns=np.zeros(n, np.int64),
            ready_ns=np.zeros(n, np.int64),
            measured_start_ns=np.full(n, -1, np.int64),
            measured_end_ns=np.full(n, -1, np.int64),
            lane=np.array([lanes[op.rank, op.lane] for op in self.ops], np.int32),
            rank=self._ints("rank").astype(np.int32),
            kind=self._ints("kind").astype(np.int8),
            name=np.array([names.code(op.name) for op in self.ops], np.int32),
            event=np.full(n, -1, np.int64),
            comm=self._ints("comm").astype(np.int32),
            grade=self._ints("grade").astype(np.int8),
            edges=Edges.build(n, source, target, lag, recorded, rule.astype(np.int8), recorded),
            comms=self._comm_table(groups),
            names=names.names,
            lanes=tuple(Lane(rank, is_device=True, label=label) for rank, label in lanes),
            groups=tuple(Group(name) for name in groups.names),
            measured_step_ns=0,
            health=GraphHealth(step_label=label),
        )

    def _comm_table(self, groups: Interner) -> CommTable:
        rows = self.comms
        unknown = np.full(len(rows), -1, np.int64)
        size = np.array([row.size for row in rows], np.int32)
        return CommTable(
            kind=np.array([row.kind for row in rows], np.int8),
            group=np.array([groups.code(row.group) for row in rows], np.int32),
            nbytes=unknown,
            match=np.array([row.match for row in rows], np.int64),
            size=size,
            seen=size,
            transfer_low_ns=unknown,
            transfer_high_ns=unknown,
        )

    def _ints(self, attribute: str) -> Int64:
        return np.array([getattr(op, attribute) for op in self.ops], np.int64)


@dataclass(frozen=True, slots=True)
class Measured:
    """What one step measured of a graph's ops; ns from the step's begin, columns of length n."""

    label: str
    step_ns: int
    start_ns: Int64
    end_ns: Int64
    duration_ns: Int64


def with_measured(graph: Graph, measured: Measured) -> Graph:
    """The graph with measured times; an op's residual is its measured start after the latest of its edges (R5)."""
    edges, released = graph.edges, np.zeros(len(graph), np.int64)
    np.maximum.at(released, edges.target, measured.end_ns[edges.source] + edges.lag_ns)
    return replace(
        graph,
        duration_ns=measured.duration_ns,
        residual_ns=np.maximum(measured.start_ns - released, 0),
        measured_start_ns=measured.start_ns,
        measured_end_ns=measured.end_ns,
        measured_step_ns=measured.step_ns,
        health=replace(graph.health, step_label=measured.label),
    )
