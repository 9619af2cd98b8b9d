"""Assembly: put copies of blocks one after the other on the ranks of a target layout and tie them into a Graph.

Blocks of one rank follow each other on every lane; waits for earlier blocks are resolved against what was put there;
members of a collective, and both sides of a pipeline transfer, find each other by a key that all of them share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from replay.core.columns import Int8, Int64
from replay.core.evidence import Grade
from replay.graph.types import CommTable, Edges, Graph, GraphHealth, OpKind, Rule
from replay.layout import Layout
from replay.program.blocks import BlockKey
from replay.program.groups import Family, members
from replay.program.templates import Outer, Program, Structure
from replay.trace import Group, Lane

Place = tuple[BlockKey, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """One block to put down: whose structure, with which durations, under which name in the target."""

    key: BlockKey
    origin: BlockKey  # key of the block whose structure this is
    structure: Structure
    duration_ns: Int64
    residual_ns: Int64
    grade: Int8
    lane_of: dict[str, str]  # lane role in the structure → lane role in the target, where they differ


@dataclass(slots=True)
class Members:
    """Ops of one collective or transfer as they are put down."""

    rule: Rule
    group: int
    size: int
    arrivals: list[int] = field(default_factory=list)
    transfers: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


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
        self._matches: dict[Hashable, Members] = {}
        self._groups: dict[tuple[str, tuple[int, ...]], int] = {}
        self._comm_rows: list[tuple[int, int, int, int]] = []  # source row, group, match, size
        self._members: dict[tuple[int, str], tuple[int, ...]] = {}
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

    def members(self, rank: int, family: Family | None) -> tuple[int, ...]:
        """Ranks of the target's group of ``family`` that ``rank`` is in; none for an unknown family."""
        if family is None:
            return ()
        if (rank, family.name) not in self._members:
            self._members[rank, family.name] = members(self._layout, family, rank)
        return self._members[rank, family.name]

    def join(self, key: Hashable, rank: int, family: Family | None, *, rule: Rule, ops: tuple[int, int, int]) -> None:
        """Make ops (arrival, transfer, row of the source's communication table) a member of the collective ``key``."""
        arrival, transfer, row = ops
        ranks = () if rule is Rule.P2P else self.members(rank, family)
        size = len(ranks) if ranks else (2 if rule is Rule.P2P else -1)
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = Members(rule, self._group(family, ranks), size)
        new_row = len(self._comm_rows)
        self._comm_rows.append((row, found.group, len(self._matches) - 1, size))
        self._columns["comm_op"].append(np.array([op for op in (arrival, transfer) if op >= 0], np.int64))
        self._columns["comm_row"].append(np.full(len(self._columns["comm_op"][-1]), new_row, np.int64))
        found.rows.append(new_row)
        if arrival >= 0:
            found.arrivals.append(arrival)
        if transfer >= 0:
            found.transfers.append(transfer)

    def graph(self) -> Graph:
        """Everything put down, tied together."""
        for match in self._matches.values():
            self._tie(match)
        source = self._program.graph
        ops = self._joined("ops")
        comm = np.full(self._count, -1, np.int32)
        comm[self._joined("comm_op")] = self._joined("comm_row")
        return Graph(
            duration_ns=self._joined("duration"),
            residual_ns=self._joined("residual"),
            ready_ns=self._joined("ready"),
            measured_start_ns=np.full(self._count, -1, np.int64),
            measured_end_ns=np.full(self._count, -1, np.int64),
            lane=self._joined("lane").astype(np.int32),
            rank=self._joined("rank").astype(np.int32),
            kind=source.kind[ops],
            name=source.name[ops],
            event=np.full(self._count, -1, np.int64),
            comm=comm,
            grade=self._joined("grade").astype(np.int8),
            edges=self._edge_table(),
            comms=self._comm_table(),
            names=source.names,
            lanes=tuple(self._lane_objects),
            groups=tuple(
                Group(f"{name} {ranks[0]}", name, ranks, len(ranks)) if ranks else Group(name)
                for name, ranks in self._groups
            ),
            measured_step_ns=0,
            health=GraphHealth(step_label="synthesised", dropped_edges=self.dropped_waits),
        )

    @property
    def source_ops(self) -> Int64:
        """For every op put down, the op of the source graph that gave its structure."""
        return self._joined("ops")

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

    def _group(self, family: Family | None, ranks: tuple[int, ...]) -> int:
        name = family.name if family is not None else "unknown"
        return self._groups.setdefault((name, ranks), len(self._groups))

    def _tie(self, match: Members) -> None:
        """Every transfer waits for all arrivals; through one join where the pairs would be many."""
        for transfer in match.transfers:
            for arrival in match.arrivals:
                self.edge(arrival, transfer, 0, match.rule)

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

    def _comm_table(self) -> CommTable:
        source = self._program.graph.comms
        rows = np.array(self._comm_rows, np.int64).reshape(-1, 4)
        seen = np.zeros(len(rows), np.int32)
        for match in self._matches.values():
            seen[match.rows] = len(match.rows)
        transfer = np.zeros(len(rows), np.int64)
        kind = self._program.graph.kind[self.source_ops]
        ops, new_rows = self._joined("comm_op"), self._joined("comm_row")
        moving = kind[ops] != OpKind.ARRIVAL
        transfer[new_rows[moving]] = self._joined("duration")[ops[moving]]
        return CommTable(
            source.kind[rows[:, 0]],
            rows[:, 1].astype(np.int32),
            source.nbytes[rows[:, 0]],
            rows[:, 2],
            rows[:, 3].astype(np.int32),
            seen,
            transfer,
            transfer.copy(),
        )


def _where(key: BlockKey) -> Hashable:
    """Where a block lies on its rank, whatever the chunk it is in."""
    chunk = key.chunk if key.layer < 0 else -1
    return (key.part, key.phase, key.microbatch, key.layer, chunk)


def weakest(grade: Int8, floor: Grade) -> Int8:
    """Grades, none better than ``floor``."""
    return np.maximum(grade, np.int8(floor))
