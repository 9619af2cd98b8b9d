"""Lay pieces out on the ranks of the target: passes in schedule order, transfers and waits between them, the tail."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Int64
from replay.graph.types import Graph, OpKind, Rule
from replay.layout import Layout
from replay.program.assembly import Assembly
from replay.program.exchange import Action, overlaps, partner, steps
from replay.program.groups import Family, coordinates, rank_at
from replay.program.keys import P2P_PARTS, BlockKey, Part
from replay.program.lanes import P2P_ROLE
from replay.program.parameters import Partition
from replay.program.piece import Piece, Pieces, Timing
from replay.program.rendezvous import Member
from replay.program.templates import Program, coordinate_key
from replay.program.types import Phase
from replay.trace import CollectiveKind


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A graph and where each of its ops comes from."""

    graph: Graph
    origin: Int64  # per op: the op of the source graph that gave its structure
    keys: tuple[BlockKey, ...]  # of every block put down
    block: Int64  # per op: its block, -1 for bookkeeping
    notes: tuple[str, ...]


def lay_out(program: Program, target: Layout, timing: Timing, layers: Partition) -> LaidOut:
    """Put down every rank of ``target``; ``layers`` are those of every chunk of the model."""
    blocking = any(part is Part.WAIT for part, _, _ in program.instances)
    overlapped = overlaps(program.layout, target, blocking=blocking)
    assembly = Assembly(program, target)
    pieces = Pieces(program, target, timing, layers)
    keys: list[BlockKey] = []
    lengths: list[int] = []
    ranks = distinct_ranks(program, target)
    if len(ranks) < target.world_size:
        pieces.note(f"{len(ranks)} of {target.world_size} ranks are simulated; the others behave like them")
    for rank in ranks:
        walk = RankWalk(program, target, (assembly, pieces, layers), rank)
        for piece in walk.run(overlapped=overlapped):
            keys.append(piece.key)
            lengths.append(len(piece.structure.ops))
    graph = assembly.graph()
    block = np.full(len(graph), -1, np.int64)
    block[: sum(lengths)] = np.repeat(np.arange(len(lengths)), lengths)
    return LaidOut(graph, assembly.source_ops, tuple(keys), block, pieces.notes)


def distinct_ranks(program: Program, target: Layout) -> tuple[int, ...]:
    """Ranks of the target that differ (R12): those whose tp, cp and dp index the input holds on some stage.

    A rank with another dp index would be a copy of one of them. All ranks, where the input holds none of these places.
    """
    seen = {coordinate_key(program.layout, rank) for rank in program.ranks}
    distinct = tuple(rank for rank in range(target.world_size) if coordinate_key(target, rank) in seen)
    return distinct or tuple(range(target.world_size))


TRANSFER_KINDS = {Part.SEND: CollectiveKind.SEND, Part.RECV: CollectiveKind.RECV}


class RankWalk:
    """One rank of the target: what it has posted, received and still waits for."""

    def __init__(self, program: Program, target: Layout, shared: tuple[Assembly, Pieces, Partition], rank: int) -> None:
        self._program = program
        self._target = target
        self._assembly, self._pieces, self._layers = shared
        self._rank = rank
        self._index = coordinates(target, rank)
        self._pending: list[int] = []  # transfers that the stream waits for before its next pass
        self._posted: list[int] = []
        self._received: dict[BlockKey, int] = {}

    def run(self, *, overlapped: bool) -> Iterator[Piece]:
        """Put everything down in order; yields what was put."""
        stage = self._index["pp"]
        yield from self._put(BlockKey(Part.PROLOGUE))
        for action, key in steps(self._target, stage, overlapped=overlapped):
            if action is Action.PASS and key is not None:
                yield from self._pass(key)
            elif action is Action.POST and key is not None:
                yield from self._transfer(key)
            else:
                self._pending += self._posted
                if action is Action.HOST_WAIT:
                    yield from self._host_wait()
                self._posted = []
        for chunk in range(self._target.vpp):
            yield from self._put(BlockKey(Part.GRAD_SYNC, chunk=chunk * self._target.pp + stage))
        yield from self._put(BlockKey(Part.TAIL))

    def _pass(self, key: BlockKey) -> Iterator[Piece]:
        """Modules of one pass, after what it receives."""
        needed = self._received.pop(key._replace(part=Part.RECV), None)
        if needed is not None and needed not in self._pending:
            self._pending.append(needed)
        for module in self._modules(key):
            yield from self._put(module)

    def _modules(self, key: BlockKey) -> Iterator[BlockKey]:
        inner = [key._replace(part=Part.LAYER, layer=layer) for layer in self._layers[key.chunk]]
        if key.chunk == 0 and self._has(Part.EMBEDDING, key.phase):
            inner.insert(0, key._replace(part=Part.EMBEDDING))
        if key.chunk == len(self._layers) - 1 and self._has(Part.HEAD, key.phase):
            inner.append(key._replace(part=Part.HEAD))
        yield key
        yield from inner if key.phase is Phase.FORWARD else reversed(inner)
        yield key._replace(part=Part.END)

    def _has(self, part: Part, phase: Phase) -> bool:
        """Whether the model was seen to do ``part`` in this phase (an embedding may have no backward of its own)."""
        return (part, int(phase), -1) in self._program.instances

    def _put(self, key: BlockKey) -> Iterator[Piece]:
        """Put down what the source did for ``key``, if anything; its stream waits for what is pending."""
        piece = self._pieces.make(key, self._rank)
        if piece is None:
            return
        base = self._assembly.put(self._rank, piece)
        self._join(piece, base)
        waiting = next((f for role, f, _ in piece.structure.lanes if role == self._program.waiting_role), None)
        if waiting is not None and key.part not in P2P_PARTS:
            for transfer in self._pending:
                self._assembly.edge(transfer, base + waiting, self._program.wait_lag_ns, Rule.EVENT)
            self._pending = []
        yield piece

    def _transfer(self, key: BlockKey) -> Iterator[Piece]:
        """Post one send or receive."""
        piece = self._pieces.make(key, self._rank)
        assert piece is not None  # sends and receives are never optional
        peer = rank_at(self._target, {**self._index, "pp": partner(key).chunk % self._target.pp})
        lane = self._program.p2p.role(key.part.name.lower(), peer)
        lanes = {role: lane for role, _, _ in piece.structure.lanes if role.startswith(P2P_ROLE)}
        worked = self._assembly.last(self._rank, self._program.waiting_role)
        base = self._assembly.put(self._rank, replace(piece, lane_of=lanes))
        self._join(piece, base)
        if worked is not None and not piece.structure.outer:
            self._assembly.edge(worked, base, self._program.wait_lag_ns, Rule.EVENT)
        last = int(np.flatnonzero(self._program.graph.kind[piece.structure.ops] == OpKind.TRANSFER)[-1])
        self._posted.append(base + last)
        if key.part is Part.RECV:
            self._received[key] = base + last
        yield piece

    def _host_wait(self) -> Iterator[Piece]:
        """The host waits for an exchange, as it did in the source; a source that never waited so has no such block."""
        piece = self._pieces.make(BlockKey(Part.WAIT), self._rank)
        if piece is None:
            return
        base = self._assembly.put(self._rank, piece)
        for position, lag in piece.structure.host_waits:
            for transfer in self._posted:
                self._assembly.edge(transfer, base + position, lag, Rule.HOST_SYNC)
        yield piece

    def _join(self, piece: Piece, base: int) -> None:
        """Make every communication op of a piece a member of its collective in the target."""
        graph = self._program.graph
        ends: dict[int, dict[bool, int]] = defaultdict(dict)
        for position, op in enumerate(piece.structure.ops.tolist()):
            if graph.comm[op] >= 0:
                ends[int(graph.comm[op])][graph.kind[op] == OpKind.ARRIVAL] = position
        seen: Counter[Hashable] = Counter()
        for row, positions in ends.items():
            chosen = self._program.families[row]
            rule = Rule.P2P if piece.key.part in P2P_PARTS else Rule.COLLECTIVE
            match = self._match(piece.key, chosen, int(graph.comms.kind[row]))
            moving = positions.get(False, positions.get(True, 0))
            arrival, transfer = (base + positions[end] if end in positions else -1 for end in (True, False))
            late, scale = int(piece.lateness_ns[moving]), float(piece.nbytes_scale[moving])
            kind = TRANSFER_KINDS.get(piece.key.part, CollectiveKind(int(graph.comms.kind[row])))
            member = Member(rule, kind, arrival, transfer, row, late, scale)
            self._assembly.rendezvous.join((match, seen[match]), self._rank, chosen, member)
            seen[match] += 1

    def _match(self, key: BlockKey, family: Family | None, kind: int) -> Hashable:
        """Equal for all members: both sides of a transfer, or the group with the block that the collective is in."""
        if key.part in (Part.SEND, Part.RECV):
            sender = key if key.part is Part.SEND else partner(key)
            return (sender, coordinate_key(self._target, self._rank))
        ranks = self._assembly.rendezvous.ranks(self._rank, family)
        group = (family.name, ranks) if family is not None else self._rank
        return (group, kind, key._replace(ordinal=-1))
