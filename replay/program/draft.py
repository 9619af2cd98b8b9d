"""A graph being written op by op; :meth:`Draft.build` freezes it and computes residuals."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    """One op; measured times are ns from the step's begin, -1 for synthesised ops."""

    name: str
    rank: int
    lane: str
    kind: OpKind
    duration_ns: int
    start_ns: int = -1
    end_ns: int = -1
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

    def build(self, measured_step_ns: int, health: GraphHealth) -> Graph:
        """The frozen graph; an op's residual is its measured start after the latest of its edges (R5)."""
        n = len(self.ops)
        columns = np.array(self.edges, np.int64).reshape(-1, 4).T
        source, target, lag, rule = (np.ascontiguousarray(column) for column in columns)
        names, groups = Interner(), Interner(row.group for row in self.comms)
        lanes = {key: index for index, key in enumerate(dict.fromkeys((op.rank, op.lane) for op in self.ops))}
        start = self._ints("start_ns")
        end = self._ints("end_ns")
        recorded = np.zeros(len(source), np.bool_)
        return Graph(
            duration_ns=self._ints("duration_ns"),
            residual_ns=_residuals(start, end, source, target, lag),
            ready_ns=np.zeros(n, np.int64),
            measured_start_ns=start,
            measured_end_ns=end,
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
            measured_step_ns=measured_step_ns,
            health=health,
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


def _residuals(start: Int64, end: Int64, source: Int64, target: Int64, lag: Int64) -> Int64:
    """max(0, measured start - latest measured release); 0 where either is unknown."""
    released = np.zeros(len(start), np.int64)
    known = end[source] >= 0
    np.maximum.at(released, target[known], end[source[known]] + lag[known])
    return np.where(start >= 0, np.maximum(start - released, 0), 0)
