"""Blocks: the pieces of a labelled graph that synthesis moves as a whole.

A rank's step is a chain of blocks in the order its host works through them: the prologue, then for every pass (phase,
micro-batch, chunk) its begin, embedding, layers, head and end, between passes the sends and receives of neighbouring
stages and the host's wait for them, and at last the gradient synchronisation of every chunk and the tail (gradient
norm, optimizer). Host ops are placed by their labels; unlabelled ones between two placed ops belong to what follows
(they prepare it). Device work belongs to the block that launched it, so a block holds a contiguous run of every lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int32, Int64, Ragged, freeze, offsets_from_lengths
from replay.graph.types import DEVICE_OPS, Graph, OpKind, Rule
from replay.program.comm_ops import P2P_KINDS, comm_kind, lane_order
from replay.program.groups import coordinates
from replay.program.keys import PASS_PARTS, PASS_PHASES, BlockKey, Part
from replay.program.transfers import settle
from replay.program.types import Labels, Phase, Role
from replay.trace import CollectiveKind


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of all ranks; those of one rank are consecutive and in execution order."""

    keys: tuple[BlockKey, ...]
    rank: Int32
    of_op: Int32  # block of every op; -1 for ops in which members of a large collective meet (they are made anew)
    ops: Ragged  # ops of every block, by lane, then in the order of the lane
    position: Int64  # place of every op inside its block

    def __post_init__(self) -> None:
        for column in (self.rank, self.of_op, self.position):
            freeze(column)

    def __len__(self) -> int:
        return len(self.keys)


def cut(graph: Graph, labels: Labels) -> Blocks:
    """Place every op of the graph in a block."""
    launcher = _sources(graph, Rule.LAUNCH)
    leading = _leading(graph, launcher)
    moves = _moves(graph, launcher)
    keys: list[BlockKey] = []
    ranks: list[int] = []
    of_op = np.full(len(graph), -1, np.int32)
    for rank in np.unique(graph.rank).tolist():
        own = leading[graph.rank[leading] == rank]
        wanted = list(_wanted(own, labels, moves, coordinates(labels.layout, rank)["pp"]))
        placed = _place(settle(wanted, graph.lane[own].tolist()))
        for lane in np.unique(graph.lane[own]).tolist():
            here = np.flatnonzero(graph.lane[own] == lane).tolist()
            for index, key in zip(here, _in_one_run([placed[index] for index in here]), strict=True):
                placed[index] = key
        codes = {key: len(keys) + i for i, key in enumerate(dict.fromkeys(placed))}
        keys += codes
        ranks += [rank] * len(codes)
        of_op[own] = [codes[key] for key in placed]
    _follow(graph, launcher, of_op)
    return _table(graph, tuple(keys), np.array(ranks, np.int32), of_op)


def _sources(graph: Graph, rule: Rule) -> Int64:
    """Source of the first incoming edge of ``rule`` of every op, -1 where there is none."""
    source = np.full(len(graph), -1, np.int64)
    rows = np.flatnonzero(graph.edges.rule == rule)[::-1]
    source[graph.edges.target[rows]] = graph.edges.source[rows]
    return source


def _leading(graph: Graph, launcher: Int64) -> Int64:
    """Ops that are placed by their own labels, in order of time: host work, and device work nobody launched."""
    device = np.isin(graph.kind, DEVICE_OPS)
    led = device & ((launcher >= 0) | (graph.kind == OpKind.TRANSFER))
    own = np.flatnonzero(~led & ~_meetings(graph))
    return own[np.lexsort((own, graph.measured_start_ns[own]))]


def _meetings(graph: Graph) -> Bool:
    """Bookkeeping ops of device lanes: where the members of a large collective meet."""
    on_device = np.array([lane.is_device for lane in graph.lanes], np.bool_)
    return np.asarray((graph.kind == OpKind.MARK) & on_device[graph.lane])


def _moves(graph: Graph, launcher: Int64) -> dict[int, Part]:
    """Leading ops that start or await a pipeline transfer: SEND, RECV, or WAIT for a host that waits for one."""
    kind = comm_kind(graph)
    p2p = np.isin(kind, P2P_KINDS)
    waits = (graph.edges.rule == Rule.HOST_SYNC) & p2p[graph.edges.source]
    moves = dict.fromkeys(graph.edges.target[waits].tolist(), Part.WAIT)
    for op in np.flatnonzero(p2p & (graph.kind != OpKind.TRANSFER)).tolist():
        leader = int(launcher[op]) if launcher[op] >= 0 else op
        moves[leader] = Part.SEND if kind[op] == CollectiveKind.SEND else Part.RECV
    return moves


def _wanted(own: Int64, labels: Labels, moves: dict[int, Part], stage: int) -> Iterator[BlockKey | None]:
    """What each op asks for by its labels; part BEGIN stands for "somewhere in this pass", None for nothing.

    Ops of a transfer's range that do not launch it have part WAIT with the phase, micro-batch and chunk of the range.
    """
    for op in own.tolist():
        phase, microbatch, chunk = Phase(int(labels.phase[op])), int(labels.microbatch[op]), int(labels.chunk[op])
        role = int(labels.role[op])
        place = max(chunk, 0) * labels.layout.pp + stage
        move = moves.get(op, Part.WAIT if role == Role.P2P else None)
        if move is not None:
            unknown = microbatch < 0 or phase not in PASS_PHASES or (role != Role.P2P and move is Part.WAIT)
            yield BlockKey(move) if unknown else BlockKey(move, phase, microbatch, place)
        elif phase is Phase.SYNC and microbatch < 0 and chunk >= 0:
            yield BlockKey(Part.GRAD_SYNC, chunk=place)
        elif phase in (Phase.SYNC, Phase.OPTIMIZER) and microbatch < 0:
            yield BlockKey(Part.TAIL)
        elif phase not in PASS_PHASES or microbatch < 0:
            yield None
        else:
            part, layer = _module(role, int(labels.layer[op]))
            yield BlockKey(part, phase, microbatch, place, layer)


def _module(role: int, layer: int) -> tuple[Part, int]:
    if layer >= 0:
        return Part.LAYER, layer
    if role == Role.EMBEDDING:
        return Part.EMBEDDING, -1
    if role == Role.HEAD:
        return Part.HEAD, -1
    return Part.BEGIN, -1


def _place(wanted: list[BlockKey | None]) -> list[BlockKey]:
    """Block of every leading op of one rank, given in order of time what each asks for, transfers settled."""
    placed: list[BlockKey] = []
    previous: BlockKey | None = None
    waits = 0
    for key, after in zip(wanted, _following(wanted), strict=True):
        chosen = _choose(key, previous, after)
        if chosen.part is Part.WAIT:
            waits += previous is not None and previous.part is not Part.WAIT
            chosen = BlockKey(Part.WAIT, ordinal=waits)
        placed.append(chosen)
        previous = None if chosen.part is Part.PROLOGUE else chosen
    return _tail_last(placed)


def _tail_last(placed: list[BlockKey]) -> list[BlockKey]:
    """What asks for the tail before the last other block prepares that: the tail is one run of ops, the last one."""
    following: BlockKey | None = None
    result = []
    for key in reversed(placed):
        following = key if key.part is not Part.TAIL else following
        result.append(following or key)
    return result[::-1]


def _in_one_run(placed: list[BlockKey]) -> list[BlockKey]:
    """Blocks of one thread's ops, those at the begin of a pass being the last run of ops before its modules.

    What a thread did earlier, or once the pass was over (waiting for the next one), prepares what follows.
    """
    begins: dict[BlockKey, int] = {}  # begin of a pass → where its last run ends
    entered: set[BlockKey] = set()
    for index, key in enumerate(placed):
        if key.part is Part.BEGIN and key not in entered:
            begins[key] = index
        elif key.part in PASS_PARTS:
            entered.add(_begin(key))
    result = list(placed)
    for index in range(len(placed) - 1, -1, -1):
        key = placed[index]
        following = result[index + 1] if index + 1 < len(placed) else key
        kept = index == begins.get(key) or (following == key and index < begins.get(key, -1))
        if key.part is Part.BEGIN and not kept:
            result[index] = following
    return result


def _following(wanted: list[BlockKey | None]) -> list[BlockKey | None]:
    """For every op the next block that labels ask for by name."""
    after: list[BlockKey | None] = []
    upcoming: BlockKey | None = None
    for key in reversed(wanted):
        if key is not None and key.part is not Part.BEGIN:
            upcoming = key
        after.append(upcoming)
    return after[::-1]


def _choose(key: BlockKey | None, previous: BlockKey | None, after: BlockKey | None) -> BlockKey:
    """Block of an op that asks for ``key``, between the blocks ``previous`` and ``after``."""
    if key is not None and key.part is not Part.BEGIN:
        return BlockKey(Part.PROLOGUE) if key.part is Part.TAIL and previous is None else key
    if key is None:
        if after is None:
            return BlockKey(Part.TAIL)
        if after.part not in PASS_PARTS:
            return BlockKey(Part.PROLOGUE) if previous is None else after
        key = after
        if previous is None:
            return BlockKey(Part.PROLOGUE)
    begun = key.same_pass(previous)
    if key.same_pass(after) and after is not None:
        return after if begun and previous is not None and previous.part is not Part.BEGIN else _begin(key)
    return key._replace(part=Part.END, layer=-1) if begun else _begin(key)


def _begin(key: BlockKey) -> BlockKey:
    return key._replace(part=Part.BEGIN, layer=-1)


def _follow(graph: Graph, launcher: Int64, of_op: Int32) -> None:
    """Place device work: with its launch, a transfer with its arrival, and what is left with what precedes it."""
    launched = np.flatnonzero((of_op < 0) & (launcher >= 0))
    of_op[launched] = of_op[launcher[launched]]
    arrival = {
        (int(graph.comm[op]), int(graph.rank[op])): op for op in np.flatnonzero(graph.kind == OpKind.ARRIVAL).tolist()
    }
    for op in np.flatnonzero(graph.kind == OpKind.TRANSFER).tolist():
        partner = arrival.get((int(graph.comm[op]), int(graph.rank[op])))
        if partner is not None:
            of_op[op] = of_op[partner]
    meeting = _meetings(graph)
    order = lane_order(graph)
    order = order[~meeting[order]]
    for before, op in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        if of_op[op] < 0 and graph.lane[op] == graph.lane[before]:
            of_op[op] = of_op[before]
    first = {int(rank): int(block) for rank, block in zip(graph.rank[::-1], of_op[::-1], strict=True) if block >= 0}
    for op in np.flatnonzero((of_op < 0) & ~meeting).tolist():
        of_op[op] = first[int(graph.rank[op])]


def _table(graph: Graph, keys: tuple[BlockKey, ...], rank: Int32, of_op: Int32) -> Blocks:
    order = lane_order(graph)
    order = order[of_op[order] >= 0]
    order = order[np.argsort(of_op[order], kind="stable")]
    offsets = offsets_from_lengths(np.bincount(of_op[order], minlength=len(keys)))
    position = np.full(len(graph), -1, np.int64)
    position[order] = np.arange(len(order)) - offsets[of_op[order]]
    return Blocks(keys, rank, of_op, Ragged(order, offsets), position)
