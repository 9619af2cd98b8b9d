"""Assembly: put copies of blocks one after the other on the ranks of a target layout and tie them into a Graph.

Blocks of one rank follow each other on every lane; waits for earlier blocks are resolved against what was put there;
members of a collective, and both sides of a pipeline transfer, find each other by a key that all of them share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from replay.core.columns import Int64
from replay.graph.types import Edges, Graph, GraphHealth, OpKind, Rule
from replay.layout import Layout
from replay.program.keys import BlockKey
from replay.program.piece import Piece
from replay.program.rendezvous import PAIRWISE_MEMBERS, Match, Rendezvous
from replay.program.templates import Outer, Program, Structure
from replay.trace import Lane


@dataclass(slots=True)
class RankState:
    """What a rank has done so far: last op of every lane, where its blocks lie."""

    last: dict[str, int] = field(default_factory=dict)
    placed: dict[Hashable, tuple[int, int]] = field(default_factory=dict)  # → first op, count


class Assembly:
    """Collects ops and edges; :meth:`graph` makes the Graph."""

    def __init__(self, program: Program, layout: Layout) -> None:
        self._program = program
        self._layout = layout
        self._count = 0
        self._columns: dict[str, list[Int64]] = defaultdict(list)
        self._inner: dict[str, list[Int64]] = defaultdict(list)
        self._edges: list[tuple[int, int, int, bool, int, bool]] = []
        self._lanes: dict[tuple[int, str], int] = {}
        self._lane_objects: list[Lane] = []
        self._ranks: dict[int, RankState] = defaultdict(RankState)
        self._meetings: list[int] = []  # the arrival on whose lane members of a large collective meet
        self.rendezvous = Rendezvous(layout)
        self.dropped_waits = 0

    def put(self, rank: int, piece: Piece) -> int:
        """Append a block to a rank; returns its first op."""
        base, state, structure = self._count, self._ranks[rank], piece.structure
        n = len(structure.ops)
        self._count += n
        targets = {role: piece.lane_of.get(role, role) for role, _, _ in structure.lanes}
        self._columns["ops"].append(structure.ops)
        self._columns["duration"].append(piece.duration_ns)
        self._columns["residual"].append(piece.residual_ns)
        self._columns["grade"].append(piece.grade.astype(np.int64))
        self._columns["rank"].append(np.full(n, rank, np.int64))
        lanes = {role: self._lane(rank, role, name) for role, name in targets.items()}
        self._columns["lane"].append(np.array([lanes[role] for role in structure.roles], np.int64))
        self._columns["ready"].append(self._ready(state, structure, targets))
        self._add_inner(base, structure)
        for outer in structure.outer:
            self._wait_outside(state, base, piece, outer)
        for (role, first, last), lag in zip(structure.lanes, structure.entry_lag_ns.tolist(), strict=True):
            before = state.last.get(targets[role])
            if before is not None:
                device = self._lane_objects[lanes[role]].is_device
                order = Rule.STREAM_ORDER if device else Rule.HOST_ORDER
                self.edge(before, base + first, lag, order)
            state.last[targets[role]] = base + last
        state.placed[_where(piece.key)] = (base, n)
        return base

    def edge(self, source: int, target: int, lag_ns: int, rule: Rule) -> None:
        """Tie two ops that were put down."""
        self._edges.append((source, target, lag_ns, False, int(rule), False))

    def last(self, rank: int, role: str) -> int | None:
        """What a lane did last."""
        return self._ranks[rank].last.get(role)

    def graph(self) -> Graph:
        """Everything put down, tied together."""
        put = self._count
        for match in self.rendezvous.matches:
            self._tie(match)
        source = self._program.graph
        meeting = np.array(self._meetings, np.int64)
        of_put = {name: self._joined(name) for name in ("ops", "rank", "lane")}
        ops, rank, lane = (np.concatenate([column, column[meeting]]) for column in of_put.values())
        nothing = np.zeros(len(meeting), np.int64)
        duration, residual, ready, grade = (
            np.concatenate([self._joined(name), nothing]) for name in ("duration", "residual", "ready", "grade")
        )
        kind = source.kind[ops]
        kind[put:] = OpKind.MARK
        comm = np.full(self._count, -1, np.int32)
        members, rows = self.rendezvous.op_rows()
        comm[members] = rows
        unknown = np.full(self._count, -1, np.int64)
        return Graph(
            duration, residual, ready, unknown, unknown.copy(), lane.astype(np.int32), rank.astype(np.int32), kind,
            source.name[ops], unknown.copy(), comm, grade.astype(np.int8), self._edge_table(),
            self.rendezvous.table(source.comms, duration), source.names, tuple(self._lane_objects),
            self.rendezvous.groups, 0, GraphHealth(step_label="synthesised", dropped_edges=self.dropped_waits),
            source.kernels,
        )  # fmt: skip

    @property
    def source_ops(self) -> Int64:
        """For every op of the graph, the op of the source graph that gave its structure."""
        ops = self._joined("ops")
        return np.concatenate([ops, ops[np.array(self._meetings, np.int64)]])

    def _lane(self, rank: int, role: str, name: str) -> int:
        if (rank, name) not in self._lanes:
            example = self._program.graph.lanes[self._program.roles.index(role)]
            self._lanes[rank, name] = len(self._lane_objects)
            self._lane_objects.append(replace(example, rank=rank, label=name))
        return self._lanes[rank, name]

    def _ready(self, state: RankState, structure: Structure, targets: dict[str, str]) -> Int64:
        """Earliest starts: a lane's first op waits for what the lane was busy with before the step."""
        ready = np.zeros(len(structure.ops), np.int64)
        for role, first, _ in structure.lanes:
            if targets[role] not in state.last:
                ready[first] = self._program.graph.ready_ns[structure.ops[first]]
        return ready

    def _add_inner(self, base: int, structure: Structure) -> None:
        self._inner["source"].append(structure.inner_source + base)
        self._inner["target"].append(structure.inner_target + base)
        self._inner["lag"].append(structure.inner_lag_ns)
        self._inner["from_start"].append(structure.inner_from_start.astype(np.int64))
        self._inner["rule"].append(structure.inner_rule.astype(np.int64))
        self._inner["recorded"].append(structure.inner_recorded.astype(np.int64))

    def _wait_outside(self, state: RankState, base: int, piece: Piece, outer: Outer) -> None:
        source = state.last.get(piece.lane_of.get(outer.role, outer.role))
        if outer.key is not None:
            place = state.placed.get(_where(self._moved(outer.key, piece)))
            if place is not None and outer.position < place[1]:
                source = place[0] + outer.position
            else:
                self.dropped_waits += 1
        if source is not None:
            self._edges.append(
                (source, base + outer.target, outer.lag_ns, outer.from_start, outer.rule, outer.recorded)
            )

    def _moved(self, key: BlockKey, piece: Piece) -> BlockKey:
        """``key`` as seen from the block's place in the target: same distance in micro-batches and layers."""
        layer, microbatch = key.layer, key.microbatch
        if key.layer >= 0 and piece.origin.layer >= 0:
            layer += piece.key.layer - piece.origin.layer
        if microbatch >= 0 and piece.origin.microbatch >= 0:
            microbatch += piece.key.microbatch - piece.origin.microbatch
        elif microbatch >= 0:  # from the tail: counted from the last micro-batch
            microbatch += (self._layout.microbatches or 0) - (self._program.layout.microbatches or 0)
        return key._replace(layer=layer, microbatch=microbatch)

    def _tie(self, match: Match) -> None:
        """Every transfer waits for all arrivals; through one op in which they meet where the pairs would be many."""
        members = [member for member, _ in match.members]
        sources = [member.arrival for member in members if member.arrival >= 0]
        if len(sources) > PAIRWISE_MEMBERS:
            meeting = self._meet(sources[0])
            for arrival in sources:
                self.edge(arrival, meeting, 0, Rule.COLLECTIVE)
            sources = [meeting]
        for member in members:
            if member.transfer < 0:
                continue
            for source in sources:
                self.edge(source, member.transfer, 0, member.rule)
            if member.arrival >= 0 and member.lateness_ns > 0:
                self.edge(member.arrival, member.transfer, member.lateness_ns, member.rule)

    def _meet(self, member: int) -> int:
        """Append a bookkeeping op on the lane of an arrival."""
        self._meetings.append(member)
        self._count += 1
        return self._count - 1

    def _joined(self, name: str) -> Int64:
        parts = self._columns[name]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _edge_table(self) -> Edges:
        inner = {name: np.concatenate(parts) for name, parts in self._inner.items()}
        added = np.array(self._edges, np.int64).reshape(-1, 6).T
        columns = ("source", "target", "lag", "from_start", "rule", "recorded")
        source, target, lag, from_start, rule, recorded = (
            np.concatenate([inner.get(name, np.zeros(0, np.int64)), column])
            for name, column in zip(columns, added, strict=True)
        )
        return Edges.build(
            self._count, source, target, lag, from_start.astype(np.bool_), rule.astype(np.int8),
            recorded.astype(np.bool_),
        )  # fmt: skip


def _where(key: BlockKey) -> Hashable:
    """Where a block lies on its rank, whatever the chunk it is in."""
    chunk = key.chunk if key.layer < 0 else -1
    return (key.part, key.phase, key.microbatch, key.layer, chunk)
