"""Lifting: a labelled graph as a Program of blocks, and templates (structure and mean durations) of its blocks.

A template's structure is that of one exemplar block: its ops, the edges among them, and what they wait for outside,
said so that it means the same in another layout ("the last work on that lane"). Its durations are trimmed means over
all blocks that do the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from replay.core.columns import Bool, Int8, Int32, Int64
from replay.core.errors import RefusedError
from replay.core.statistics import trimmed_mean
from replay.graph.types import Graph, OpKind, Rule
from replay.layout import Layout
from replay.program.blocks import Blocks, cut
from replay.program.comm_ops import is_p2p, lane_order
from replay.program.groups import Family, classify, coordinates
from replay.program.keys import PASS_PARTS, BlockKey, Part
from replay.program.lanes import P2PLanes, lane_roles, p2p_lanes, waiting_role
from replay.program.types import Labels, Role

_ORDER_RULES = (Rule.STREAM_ORDER, Rule.HOST_ORDER)
_REMADE_RULES = (Rule.COLLECTIVE, Rule.P2P, Rule.QUEUE)  # synthesis makes these anew
_EXPERT_ROLES = (Role.DISPATCH, Role.COMBINE, Role.EXPERTS, Role.ROUTER)


@dataclass(frozen=True, slots=True)
class Outer:
    """A wait for something outside the block: the last op of lane ``role`` so far, or an op of an earlier block."""

    target: int  # position of the waiting op
    role: str
    key: BlockKey | None  # the earlier block; None: whatever the lane did last
    position: int  # of the op in that block
    lag_ns: int
    from_start: bool
    rule: int
    recorded: bool


@dataclass(frozen=True, slots=True)
class Structure:
    """Ops of an exemplar block, by lane, and what ties them. Columns of ``inner`` are edges between positions."""

    ops: Int64  # in the source graph
    roles: tuple[str, ...]  # lane role of every op
    lanes: tuple[tuple[str, int, int], ...]  # (role, first, last position) of every lane used
    entry_lag_ns: Int64  # lag of the order edge into the first op of each lane
    inner_source: Int64
    inner_target: Int64
    inner_lag_ns: Int64
    inner_from_start: Bool
    inner_rule: Int8
    inner_recorded: Bool
    outer: tuple[Outer, ...]
    host_waits: tuple[tuple[int, int], ...]  # (position, lag) of ops that wait for pipeline transfers


@dataclass(frozen=True)
class Program:
    """Blocks of a labelled graph with the roles of their lanes and groups."""

    graph: Graph
    labels: Labels
    blocks: Blocks
    families: tuple[Family | None, ...]  # of every communication row
    roles: tuple[str, ...]  # of every lane
    p2p: P2PLanes
    waiting_role: str  # the stream that consumes pipeline receives
    wait_lag_ns: int  # from a receive's end to the stream's next op

    @property
    def layout(self) -> Layout:
        """The layout the graph was measured with."""
        return self.labels.layout

    @cached_property
    def instances(self) -> dict[tuple[Part, int, int], list[int]]:
        """Blocks by (part, phase, layer)."""
        found: dict[tuple[Part, int, int], list[int]] = defaultdict(list)
        for index, key in enumerate(self.blocks.keys):
            found[key.part, int(key.phase), key.layer].append(index)
        return dict(found)

    @cached_property
    def signatures(self) -> tuple[bytes, ...]:
        """Equal for blocks whose ops line up: same kinds on the same lanes in the same order."""
        codes = {role: code for code, role in enumerate(dict.fromkeys(self.roles))}
        role = np.array([codes[name] for name in self.roles], np.int64)[self.graph.lane]
        shape = role * (max(OpKind) + 1) + self.graph.kind
        return tuple(shape[self.blocks.ops.row(i)].tobytes() for i in range(len(self.blocks)))

    @cached_property
    def on_device(self) -> Bool:
        """Per lane: a stream."""
        return np.array([lane.is_device for lane in self.graph.lanes], np.bool_)

    @cached_property
    def is_p2p(self) -> Bool:
        """Per op: a pipeline send or receive."""
        return is_p2p(self.graph)

    @cached_property
    def edge_target(self) -> Int32:
        """Destination of every edge; the graph works it out anew each time."""
        return self.graph.edges.target

    @cached_property
    def lateness_ns(self) -> Int64:
        """Per transfer: how much later its unseen peers came (R3), in groups within a stage, where ranks behave alike.

        It stands for the expected maximum over the folded ranks (R12). Waits between stages are the schedule's: 0.
        """
        graph, edges = self.graph, self.graph.edges
        late = np.zeros(len(graph), np.int64)
        within = np.array([family is not None and "pp" not in family.axes for family in self.families], np.bool_)
        rows = np.flatnonzero((edges.rule == Rule.COLLECTIVE) & (edges.lag_ns > 0))
        target = self.edge_target[rows]
        alike = within[graph.comm[target]] & ~self.is_p2p[target] if len(within) else np.zeros(len(rows), np.bool_)
        np.maximum.at(late, target[alike], edges.lag_ns[rows[alike]])
        return late

    @cached_property
    def next_on_lane(self) -> Int64:
        """The op after every op on its lane, -1 for the last."""
        order = lane_order(self.graph)
        order = order[self.blocks.of_op[order] >= 0]
        following = np.full(len(self.graph), -1, np.int64)
        same = self.graph.lane[order[1:]] == self.graph.lane[order[:-1]]
        following[order[:-1][same]] = order[1:][same]
        return following

    @cached_property
    def chunk_layers(self) -> dict[int, tuple[int, ...]]:
        """Layers of every chunk seen, ascending."""
        found: dict[int, set[int]] = defaultdict(set)
        for key in self.blocks.keys:
            if key.part is Part.LAYER:
                found[key.chunk].add(key.layer)
        return {chunk: tuple(sorted(layers)) for chunk, layers in sorted(found.items())}

    @cached_property
    def sparse_layers(self) -> frozenset[int]:
        """Layers with experts."""
        return sparse_layers(self.labels)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that the graph holds."""
        return tuple(np.unique(self.blocks.rank).tolist())


def lift(graph: Graph, labels: Labels) -> Program:
    """Cut ``graph`` into blocks; raises RefusedError where labels do not tell passes apart."""
    blocks = cut(graph, labels)
    if not any(key.part in PASS_PARTS for key in blocks.keys):
        raise RefusedError(
            "no forward or backward pass can be told apart: the trace has no ranges that name micro-batches; record "
            "ranges such as 'forward microbatch=0 chunk=0' around each pass and 'layer=0' around each layer"
        )
    families = group_families(graph, labels)
    roles = lane_roles(graph, families)
    waits = (graph.edges.rule == Rule.EVENT) & is_p2p(graph)[graph.edges.source]
    lag = int(np.median(graph.edges.lag_ns[waits])) if waits.any() else 0
    return Program(graph, labels, blocks, families, roles, p2p_lanes(graph), waiting_role(graph, roles), lag)


def group_families(graph: Graph, labels: Labels) -> tuple[Family | None, ...]:
    """Family of the group of every communication row; how its ops are used decides between equal ones."""
    expert = np.isin(labels.role, _EXPERT_ROLES)
    uses: dict[int, Counter[bool]] = defaultdict(Counter)
    for op in np.flatnonzero(graph.comm >= 0).tolist():
        uses[int(graph.comms.group[graph.comm[op]])][bool(expert[op])] += 1
    family: dict[int, Family | None] = {-1: None}
    for group, counts in uses.items():
        if group >= 0:
            likely = ("ep", "etp_ep") if counts[True] > counts[False] else ("dp_cp", "edp")
            family[group] = classify(graph.groups[group], labels.layout, likely)
    return tuple(family.get(group) for group in graph.comms.group.tolist())


def sparse_layers(labels: Labels) -> frozenset[int]:
    """Layers with experts: those with ops of experts where any is seen, else those that the model's sizes say.

    A layer that no rank of the input holds is what the model says too.
    """
    model = labels.model
    seen = set(np.unique(labels.layer[labels.layer >= 0]).tolist())
    shown = set(np.unique(labels.layer[np.isin(labels.role, _EXPERT_ROLES) & (labels.layer >= 0)]).tolist())
    stated = set(range(model.dense_layers or 0, model.layers or 0)) if model.experts else set()
    return frozenset(shown | (stated - seen)) if shown else frozenset(stated)


def structure(program: Program, instances: Sequence[int]) -> Structure:
    """Structure of the first of ``instances``, which are blocks of one signature.

    An edge that says who held the device (occupancy) is a property of the work only if most instances show it.
    """
    graph, blocks, block = program.graph, program.blocks, instances[0]
    ops = blocks.ops.row(block)
    roles = tuple(program.roles[lane] for lane in graph.lane[ops].tolist())
    spans: dict[str, tuple[int, int]] = {}
    for position, role in enumerate(roles):
        spans[role] = (spans.get(role, (position, 0))[0], position)
    rows = _incoming(graph, ops)
    source, target = graph.edges.source[rows].astype(np.int64), program.edge_target[rows]
    remade = np.isin(graph.edges.rule[rows], _REMADE_RULES)
    inside = (blocks.of_op[source] == block) & ~remade
    for row in np.flatnonzero(graph.edges.rule[rows] == Rule.OCCUPANCY).tolist():
        pair = (int(blocks.position[source[row]]), int(blocks.position[target[row]]))
        usual = inside[row] and _is_usual(program, instances, pair)
        inside[row], remade[row] = usual, not usual
    kept = rows[inside]
    outer, host_waits = _outer(program, block, rows[~inside & ~remade])
    inner_source, inner_target, rule = (
        blocks.position[source[inside]],
        blocks.position[target[inside]],
        graph.edges.rule[kept],
    )
    resumed = _resumed(graph.lane[ops], inner_target[np.isin(rule, _ORDER_RULES)])
    order = np.where(program.on_device[graph.lane[ops[resumed]]], Rule.STREAM_ORDER, Rule.HOST_ORDER).astype(np.int8)
    none = np.zeros(len(resumed), np.int64)
    return Structure(
        ops,
        roles,
        tuple((role, first, last) for role, (first, last) in spans.items()),
        _entry_lags(graph, ops, [first for first, _ in spans.values()]),
        np.concatenate([inner_source, resumed - 1]),
        np.concatenate([inner_target, resumed]),
        np.concatenate([graph.edges.lag_ns[kept], none]),
        np.concatenate([graph.edges.from_start[kept], none.astype(np.bool_)]),
        np.concatenate([rule, order]),
        np.concatenate([graph.edges.recorded[kept], none.astype(np.bool_)]),
        outer,
        host_waits,
    )


def _resumed(lane: Int32, ordered: Int64) -> Int64:
    """Positions at which a lane goes on with the block after ops of another one: they follow the op before.

    ``lane`` is that of every op of the block, ``ordered`` the positions that the lane's order reaches already.
    """
    goes_on = np.append(False, lane[1:] == lane[:-1])
    goes_on[ordered] = False
    return np.flatnonzero(goes_on)


def _is_usual(program: Program, instances: Sequence[int], pair: tuple[int, int]) -> bool:
    """Whether most instances have an occupancy edge between these two positions."""
    edges, shown = program.graph.edges, 0
    for block in instances:
        ops = program.blocks.ops.row(block)
        rows = _incoming(program.graph, ops[pair[1] : pair[1] + 1])
        shown += bool(((edges.source[rows] == ops[pair[0]]) & (edges.rule[rows] == Rule.OCCUPANCY)).any())
    return 2 * shown > len(instances)


def mean_ns(program: Program, instances: Sequence[int], column: Int64) -> Int64:
    """Trimmed mean of every op over blocks of one signature; ``column`` has one row per op of the graph."""
    rows = column[np.stack([program.blocks.ops.row(block) for block in instances])]
    return np.rint(trimmed_mean(rows)).astype(np.int64)


def coordinate_key(layout: Layout, rank: int) -> tuple[int, int, int]:
    """What tells ranks of one stage apart: indices along tp, cp and dp."""
    index = coordinates(layout, rank)
    return index["tp"], index["cp"], index["dp"]


def _incoming(graph: Graph, ops: Int64) -> Int64:
    """Edges into the given ops."""
    begin, end = graph.edges.offsets[ops], graph.edges.offsets[ops + 1]
    return np.concatenate([np.arange(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)] or [ops])


def _entry_lags(graph: Graph, ops: Int64, firsts: list[int]) -> Int64:
    lags = []
    for first in firsts:
        rows = _incoming(graph, ops[first : first + 1])
        same = np.isin(graph.edges.rule[rows], _ORDER_RULES)
        lags.append(int(graph.edges.lag_ns[rows[same][0]]) if same.any() else 0)
    return np.array(lags, np.int64)


def _outer(program: Program, block: int, rows: Int64) -> tuple[tuple[Outer, ...], tuple[tuple[int, int], ...]]:
    """Waits of a block for other blocks of its rank, and its host's waits for pipeline transfers."""
    graph, blocks, edges = program.graph, program.blocks, program.graph.edges
    outer: list[Outer] = []
    host_waits: dict[int, int] = {}
    p2p = program.is_p2p
    for row in rows.tolist():
        source, target, rule = int(edges.source[row]), int(program.edge_target[row]), int(edges.rule[row])
        position = int(blocks.position[target])
        if p2p[source]:
            if rule == Rule.HOST_SYNC:
                host_waits[position] = max(int(edges.lag_ns[row]), host_waits.get(position, 0))
            continue
        order = rule in _ORDER_RULES and graph.lane[source] == graph.lane[target]
        if order or graph.rank[source] != graph.rank[target] or blocks.of_op[source] > block:
            continue
        following = int(program.next_on_lane[source])
        last = following < 0 or blocks.of_op[following] >= block
        outer.append(
            Outer(
                position,
                program.roles[graph.lane[source]],
                None if last else blocks.keys[blocks.of_op[source]],
                int(blocks.position[source]),
                int(edges.lag_ns[row]),
                bool(edges.from_start[row]),
                rule,
                bool(edges.recorded[row]),
            )
        )
    return tuple(outer), tuple(host_waits.items())
