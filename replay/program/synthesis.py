"""Synthesis: lay the templates of a Program out again for another pipeline, batch, schedule or expert layout.

Nothing of the measured order is used: passes come from the schedule's (p, m, v, G), transfers between stages from
Megatron's exchanges, groups from the rank order, durations from template means. Waits are recomputed by the simulation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Int8, Int64
from replay.core.errors import LayoutError, RefusedError
from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind, Rule
from replay.layout import Layout
from replay.program.assembly import Assembly, Piece, weakest
from replay.program.blocks import BlockKey, Part
from replay.program.choice import Choice, Chooser
from replay.program.exchange import Action, overlaps, partner, steps
from replay.program.expert_gradients import appears, cut_out, dense_sum, ratio
from replay.program.groups import FAMILIES, coordinates, rank_at
from replay.program.parameters import tail_scale
from replay.program.templates import Program, Structure, coordinate_key, mean_duration, structure
from replay.program.types import Phase


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations to lay out, one row per op of the source graph: measured, or re-timed for the target."""

    duration_ns: Int64
    grade: Int8

    @staticmethod
    def measured(graph: Graph) -> Timing:
        """The durations of the graph itself."""
        return Timing(graph.duration_ns, graph.grade)


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A synthesised graph and where it came from."""

    graph: Graph
    layout: Layout
    origin: Int64  # per op: the op of the source graph that gave its structure
    key: tuple[BlockKey, ...]  # of every block put down
    block: Int64  # per op: its block
    notes: tuple[str, ...]  # what had to be assumed


def synthesise(program: Program, target: Layout, timing: Timing | None = None) -> Synthesis:
    """The graph of ``target``, from the templates of ``program`` with the durations of ``timing``.

    Raises RefusedError for what the input cannot answer and LayoutError for sizes that do not fit the model.
    """
    _check(program.layout, target)
    layers = partition(program, target)
    return _Builder(program, target, timing or Timing.measured(program.graph), layers).run()


def partition(program: Program, target: Layout) -> tuple[tuple[int, ...], ...]:
    """Layers of every chunk of the target: the source's own where the number of chunks is equal, else even parts."""
    seen = program.chunk_layers
    count = target.pp * target.vpp
    source_count = program.layout.pp * program.layout.vpp
    known = [program.labels.model.layers or 0, *(1 + max(chunk, default=-1) for chunk in seen.values())]
    total = max(known)
    if count == source_count and len(seen) == count:
        return tuple(seen[chunk] for chunk in range(count))
    if total % count:
        fits = [v for v in range(1, total + 1) if total % (target.pp * v) == 0]
        hint = f"; with pp {target.pp}, vpp may be {', '.join(map(str, fits))}" if fits else ""
        raise LayoutError(
            f"{total} layers do not divide into pp {target.pp} x vpp {target.vpp} = {count} equal chunks{hint}"
        )
    size = total // count
    return tuple(tuple(range(chunk * size, (chunk + 1) * size)) for chunk in range(count))


def _check(source: Layout, target: Layout) -> None:
    for name in ("tp", "cp", "etp"):
        before, after = getattr(source, name), getattr(target, name)
        if before != after:
            raise RefusedError(
                f"{name} {before} to {after}: what-ifs that change {name} are not modelled; "
                "pp, vpp, ep, gbs and the schedule can be changed"
            )


class _Builder:
    """Walks the ranks of the target; a class because an assembly, caches and pending waits belong together."""

    def __init__(self, program: Program, target: Layout, timing: Timing, layers: tuple[tuple[int, ...], ...]) -> None:
        self._program = program
        self._target = target
        self._timing = timing
        self._layers = layers
        self._chooser = Chooser(program, target)
        self._assembly = Assembly(program, target)
        self._structures: dict[int, Structure] = {}
        self._means: dict[tuple[int, ...], tuple[Int64, Int64]] = {}
        self._pending: dict[int, list[int]] = defaultdict(list)  # transfers that the rank's stream waits for next
        self._received: dict[tuple[int, BlockKey], int] = {}
        self._blocks: list[tuple[BlockKey, int]] = []
        self._notes: dict[str, None] = {}

    def run(self) -> Synthesis:
        """Put down every rank."""
        blocking = any(part is Part.WAIT for part, _, _ in self._program.instances)
        overlapped = overlaps(self._program.layout, self._target, blocking=blocking)
        for rank in range(self._target.world_size):
            self._rank(rank, overlapped=overlapped)
        graph = self._assembly.graph()
        lengths = np.array([count for _, count in self._blocks], np.int64)
        block = np.repeat(np.arange(len(lengths)), lengths)
        keys = tuple(key for key, _ in self._blocks)
        return Synthesis(graph, self._target, self._assembly.source_ops, keys, block, tuple(self._notes))

    def _rank(self, rank: int, *, overlapped: bool) -> None:
        stage = coordinates(self._target, rank)["pp"]
        self._put(rank, BlockKey(Part.PROLOGUE))
        posted: list[int] = []
        for action, key in steps(self._target, stage, overlapped=overlapped):
            if action is Action.PASS and key is not None:
                self._pass(rank, key)
            elif action is Action.POST and key is not None:
                posted.append(self._transfer(rank, key, overlapped=overlapped))
            else:
                self._pending[rank] += posted
                if action is Action.HOST_WAIT:
                    self._host_wait(rank, posted)
                posted = []
        for chunk in range(self._target.vpp):
            key = BlockKey(Part.GRAD_SYNC, chunk=chunk * self._target.pp + stage)
            self._put(rank, key)
            self._sum_experts(rank, key)
        self._put(rank, BlockKey(Part.TAIL))

    def _pass(self, rank: int, key: BlockKey) -> None:
        """Modules of one pass, after what it receives."""
        needed = self._received.pop((rank, key._replace(part=Part.RECV)), None)
        if needed is not None and needed not in self._pending[rank]:
            self._pending[rank].append(needed)
        for module in self._modules(key):
            self._put(rank, module)

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
        """Whether the model has this part at all: seen in this phase, or in the other one (then it is missing)."""
        return any(p is part for p, _, _ in self._program.instances) and not (
            phase is Phase.BACKWARD and (part, int(phase), -1) not in self._program.instances
        )

    def _put(self, rank: int, key: BlockKey) -> int | None:
        """Put down what the source did for ``key``; returns its first op."""
        choice = self._chooser.choose(key, rank)
        if choice is None:
            return None
        piece = self._piece(rank, key, choice)
        base = self._assembly.put(rank, piece)
        self._blocks.append((key, len(piece.structure.ops)))
        self._join(rank, key, piece.structure, base)
        waiting = next((f for role, f, _ in piece.structure.lanes if role == self._program.waiting_role), None)
        if waiting is not None and key.part not in (Part.SEND, Part.RECV, Part.WAIT):
            for transfer in self._pending.pop(rank, []):
                self._assembly.edge(transfer, base + waiting, self._program.wait_lag_ns, Rule.EVENT)
        return base

    def _piece(self, rank: int, key: BlockKey, choice: Choice) -> Piece:
        exemplar = choice.blocks[0]
        if exemplar not in self._structures:
            self._structures[exemplar] = structure(self._program, exemplar)
        shape = self._structures[exemplar]
        if choice.blocks not in self._means:
            duration, _ = mean_duration(self._program, choice.blocks, self._timing.duration_ns)
            residual, _ = mean_duration(self._program, choice.blocks, self._program.graph.residual_ns)
            self._means[choice.blocks] = (duration, residual)
        duration, residual = self._means[choice.blocks]
        grade = self._timing.grade[shape.ops]
        if choice.assumed:
            self._notes[choice.assumed] = None
            grade = weakest(grade, Grade.ASSUMED)
        scale = tail_scale(self._program, exemplar, self._target, self._layers, (key, rank))
        if scale is not None:
            duration = np.rint(duration * scale).astype(np.int64)
            grade = np.where(scale != 1, weakest(grade, Grade.SCALED), grade)
        return Piece(key, self._program.blocks.keys[exemplar], shape, duration, residual, grade, {})

    def _transfer(self, rank: int, key: BlockKey, *, overlapped: bool) -> int:
        """Put down one send or receive; returns the op whose end is the end of the transfer."""
        choice = self._chooser.choose(key, rank)
        assert choice is not None  # sends and receives are never optional
        piece = self._piece(rank, key, choice)
        other = self._peer(rank, key)
        direction = key.part.name.lower()
        lane_of = {
            role: self._program.p2p.role(direction, other)
            for role, _, _ in piece.structure.lanes
            if role.startswith("p2p")
        }
        base = self._assembly.put(rank, replace(piece, lane_of=lane_of))
        self._blocks.append((key, len(piece.structure.ops)))
        self._join(rank, key, piece.structure, base)
        moving = [i for i, op in enumerate(piece.structure.ops) if self._program.is_p2p[op]]
        if key.part is Part.RECV:
            self._received[rank, key] = base + moving[-1]
        return base + moving[-1]

    def _peer(self, rank: int, key: BlockKey) -> int:
        index = coordinates(self._target, rank)
        return rank_at(self._target, {**index, "pp": partner(key).chunk % self._target.pp})

    def _host_wait(self, rank: int, posted: list[int]) -> None:
        """The host waits for an exchange, as it did in the source; a source that never waited so has no such block."""
        key = BlockKey(Part.WAIT)
        choice = self._chooser.choose(key, rank)
        if choice is None:
            return
        base = self._put(rank, key)
        assert base is not None
        for position, lag in self._structures[choice.blocks[0]].host_waits:
            for transfer in posted:
                self._assembly.edge(transfer, base + position, lag, Rule.HOST_SYNC)

    def _sum_experts(self, rank: int, key: BlockKey) -> None:
        """Put down the sum of expert gradients that a smaller ep brings about."""
        if self._program.labels.model.experts is None or not appears(self._program.layout, self._target):
            return
        choice = self._chooser.choose(key, rank)
        dense = self._piece(rank, key, choice) if choice is not None else None
        ends = dense_sum(self._program, dense.structure) if dense is not None else None
        held = self._layers[key.chunk]
        factor = ratio(self._program, self._target, len(held), (key.chunk == 0) + (key.chunk == len(self._layers) - 1))
        if dense is None or ends is None or factor is None:
            self._notes["expert gradients are summed in the target only, and their time is not included"] = None
            return
        self._notes["expert gradients are summed in the target only; estimated from the sum of dense gradients"] = None
        shape = cut_out(dense.structure, ends)
        duration = np.array([0, round(dense.duration_ns[ends[1]] * factor)], np.int64)
        grade = np.full(2, Grade.ASSUMED, np.int8)
        added = key._replace(ordinal=1)
        base = self._assembly.put(rank, Piece(added, dense.origin, shape, duration, np.zeros(2, np.int64), grade, {}))
        self._blocks.append((added, 2))
        row = int(self._program.graph.comm[shape.ops[1]])
        family = FAMILIES["edp"]
        match = (family.name, self._assembly.members(rank, family), added)
        self._assembly.join(match, rank, family, rule=Rule.COLLECTIVE, ops=(base, base + 1, row))

    def _join(self, rank: int, key: BlockKey, shape: Structure, base: int) -> None:
        """Make every communication op of a block a member of its collective in the target."""
        graph = self._program.graph
        rows: dict[int, dict[bool, int]] = defaultdict(dict)
        for position, op in enumerate(shape.ops.tolist()):
            if graph.comm[op] >= 0:
                rows[int(graph.comm[op])][graph.kind[op] == OpKind.ARRIVAL] = base + position
        seen: Counter[Hashable] = Counter()
        for row, ends in rows.items():
            family = self._program.families[row]
            name = family.name if family is not None else f"unknown {rank}"
            ops = (ends.get(True, -1), ends.get(False, -1), row)
            if key.part in (Part.SEND, Part.RECV):
                match, rule = self._message(rank, key), Rule.P2P
            else:
                match, rule = self._collective(rank, key, row, name), Rule.COLLECTIVE
            self._assembly.join((match, seen[match]), rank, family, rule=rule, ops=ops)
            seen[match] += 1

    def _message(self, rank: int, key: BlockKey) -> Hashable:
        """Equal for both sides of a transfer."""
        sender = key if key.part is Part.SEND else partner(key)
        return (sender, coordinate_key(self._target, rank))

    def _collective(self, rank: int, key: BlockKey, row: int, name: str) -> Hashable:
        """Equal for all members of a collective: the group, its kind, and the block that it is part of."""
        family = self._program.families[row]
        ranks = self._assembly.members(rank, family)
        return (name, ranks, int(self._program.graph.comms.kind[row]), key._replace(ordinal=-1))
