"""Hand-made recordings of small training steps: labelled graphs whose every time follows from a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from replay.graph.types import Edges, Graph, GraphHealth, OpKind, Rule
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.exchange import Action, partner, steps
from replay.program.groups import FAMILIES, coordinates, members, rank_at
from replay.program.keys import BlockKey, Part
from replay.program.types import Labels, Phase, Role
from replay.simulate.engine import simulate
from replay.trace import CollectiveKind, Group, Lane
from tests.synthetic import Comm, comm_table

Label = tuple[Phase, Role, int, int, int]
NOTHING: Label = (Phase.NONE, Role.NONE, -1, -1, -1)


@dataclass(frozen=True)
class Costs:
    """Durations in ns: of a layer, of embedding and head, of one transfer, of the optimizer, of a launch."""

    forward: int = 10
    backward: int = 20
    embedding: int = 0
    head: int = 0
    transfer: int = 0
    gradients: int = 0
    optimizer: int = 0
    launch: int = 0
    autograd: bool = False  # backwards are launched from a thread of their own, while the main thread waits


@dataclass
class Recording:
    """Ops and edges in the order in which hosts issue them."""

    layout: Layout
    rows: list[tuple[int, str, OpKind, str, int, int]] = field(default_factory=list)  # rank, lane, kind, name, ns, comm
    edges: list[tuple[int, int, Rule]] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    comms: list[Comm] = field(default_factory=list)
    groups: dict[Group, int] = field(default_factory=dict)
    last: dict[tuple[int, str], int] = field(default_factory=dict)
    members: dict[object, list[tuple[int, int]]] = field(default_factory=dict)  # match → (arrival, transfer)

    def op(self, rank: int, lane: str, kind: OpKind, name: str, ns: int, label: Label, comm: int = -1) -> int:
        """Append one op behind its lane."""
        op = len(self.rows)
        self.rows.append((rank, lane, kind, name, ns, comm))
        self.labels.append(label)
        if (rank, lane) in self.last:
            order = Rule.STREAM_ORDER if lane.startswith("stream") else Rule.HOST_ORDER
            self.edges.append((self.last[rank, lane], op, order))
        self.last[rank, lane] = op
        return op

    def kernel(self, rank: int, name: str, ns: int, label: Label, launch: int = 0, *, thread: str = "host") -> int:
        """Launch one kernel on the compute stream."""
        call = self.op(rank, thread, OpKind.CALL, "launch", launch, label)
        op = self.op(rank, "stream 7", OpKind.COMPUTE, name, ns, label)
        self.edges.append((call, op, Rule.LAUNCH))
        return op

    def communicate(
        self,
        rank: int,
        lane: str,
        kind: CollectiveKind,
        ns: int,
        label: Label,
        group: Group,
        match: object,
        *,
        thread: str = "host",
    ) -> int:
        """Launch a member of a collective that waits for the compute stream; returns its transfer."""
        call = self.op(rank, thread, OpKind.CALL, "launch", 0, label)
        self.groups.setdefault(group, len(self.groups))
        found = self.members.setdefault(match, [])
        number = list(self.members).index(match)
        self.comms.append(Comm(kind, self.groups[group], 1 << 26, number, max(len(group.ranks), 2)))
        arrival = self.op(rank, lane, OpKind.ARRIVAL, kind.name, 0, label, len(self.comms) - 1)
        self.edges.append((call, arrival, Rule.LAUNCH))
        if (rank, "stream 7") in self.last:
            self.edges.append((self.last[rank, "stream 7"], arrival, Rule.EVENT))
        transfer = self.op(rank, lane, OpKind.TRANSFER, kind.name, ns, label, len(self.comms) - 1)
        found.append((arrival, transfer))
        return transfer

    def build(self) -> tuple[Graph, Labels]:
        """The graph, measured as it executes, and its labels."""
        edges = list(self.edges)
        for pairs in self.members.values():
            edges += [(arrival, transfer, Rule.COLLECTIVE) for arrival, _ in pairs for _, transfer in pairs]
        graph = self._graph(edges)
        timeline = simulate(graph)
        graph = replace(
            graph,
            measured_start_ns=timeline.start_ns,
            measured_end_ns=timeline.end_ns,
            measured_step_ns=timeline.step_ns,
        )
        phase, role, microbatch, chunk, layer = np.array(self.labels, np.int64).T
        layers = int(layer.max()) + 1
        return graph, Labels(
            phase.astype(np.int8), role.astype(np.int8), microbatch.astype(np.int32), chunk.astype(np.int32),
            layer.astype(np.int32), np.zeros(len(graph), np.int32), self.layout, ModelSpec(layers=layers), (),
        )  # fmt: skip

    def _graph(self, edges: Sequence[tuple[int, int, Rule]]) -> Graph:
        rank, lane, kind, name, ns, comm = zip(*self.rows, strict=True)
        lanes = list(dict.fromkeys(zip(rank, lane, strict=True)))
        names = tuple(dict.fromkeys(name))
        n = len(self.rows)
        source, target, rule = np.array(edges, np.int64).reshape(-1, 3).T
        zero, unknown = np.zeros(n, np.int64), np.full(n, -1, np.int64)
        return Graph(
            np.array(ns, np.int64), zero, zero.copy(), unknown, unknown.copy(),
            np.array([lanes.index(pair) for pair in zip(rank, lane, strict=True)], np.int32),
            np.array(rank, np.int32), np.array(kind, np.int8), np.array([names.index(x) for x in name], np.int32),
            unknown.copy(), np.array(comm, np.int32), np.zeros(n, np.int8),
            Edges.build(n, source, target, np.zeros(len(edges), np.int64), np.zeros(len(edges), np.bool_),
                        rule.astype(np.int8), np.ones(len(edges), np.bool_)),
            comm_table(self.comms), names, tuple(Lane(r, x.startswith("stream"), x) for r, x in lanes),
            tuple(self.groups), 0, GraphHealth(),
        )  # fmt: skip


def pipeline_step(
    layout: Layout,
    layers: int | Sequence[int],
    costs: Costs,
    slow: dict[int, int] | None = None,
    only: tuple[int, ...] | None = None,
) -> tuple[Graph, Labels]:
    """A step of ``layout`` as Megatron runs it, every layer one kernel; ``layers`` in all, or of every chunk.

    ``slow`` adds ns to a rank's forward layers; ``only`` these ranks are recorded.
    """
    recording = Recording(layout)
    chunks = layout.pp * layout.vpp
    counts = [layers // chunks] * chunks if isinstance(layers, int) else list(layers)
    for rank in only or range(layout.world_size):
        _Rank(recording, rank, counts, costs, (slow or {}).get(rank, 0)).run()
    return recording.build()


class _Rank:
    def __init__(self, recording: Recording, rank: int, counts: list[int], costs: Costs, slow: int) -> None:
        self.recording, self.rank, self.counts, self.costs, self.slow = recording, rank, counts, costs, slow
        self.layout = recording.layout
        self.stage = coordinates(self.layout, rank)["pp"]
        self.posted: list[int] = []
        self.received: dict[object, int] = {}
        self.waiting: list[int] = []

    def run(self) -> None:
        """All passes and exchanges, gradient sums over the data group, the optimizer."""
        for action, key in steps(self.layout, self.stage, overlapped=self.layout.vpp > 1):
            if action is Action.PASS and key is not None:
                self._pass(key)
            elif action is Action.POST and key is not None:
                self._transfer(key)
            else:
                self._wait(host=action is Action.HOST_WAIT)
        for chunk in range(self.layout.vpp):
            self._gradients(chunk)
        self.recording.kernel(
            self.rank, "adam", self.costs.optimizer, (Phase.OPTIMIZER, Role.OPTIMIZER, -1, -1, -1), self.costs.launch
        )

    def _pass(self, key: BlockKey) -> None:
        first = sum(self.counts[: key.chunk])
        forward = key.phase is Phase.FORWARD
        modules = [(Role.MLP, layer) for layer in range(first, first + self.counts[key.chunk])]
        if key.chunk == 0:
            modules.insert(0, (Role.EMBEDDING, -1))
        if key.chunk == self.layout.pp * self.layout.vpp - 1:
            modules.append((Role.HEAD, -1))
        needed = self.received.pop((key.phase, key.microbatch, key.chunk), None)
        self.waiting += [needed] if needed is not None else []
        thread = "autograd" if self.costs.autograd and not forward else "host"
        whole = (key.phase, Role.NONE, key.microbatch, key.chunk // self.layout.pp, -1)
        begin = self.recording.op(self.rank, "host", OpKind.CALL, "begin", 0, whole)
        for role, layer in modules if forward else reversed(modules):
            ns = {Role.EMBEDDING: self.costs.embedding, Role.HEAD: self.costs.head}.get(
                role, self.costs.forward + self.slow if forward else self.costs.backward
            )
            label = (key.phase, role, key.microbatch, key.chunk // self.layout.pp, layer)
            call = len(self.recording.rows)
            name = f"{role.name} {key.phase.name}"
            op = self.recording.kernel(self.rank, name, ns, label, self.costs.launch, thread=thread)
            if thread != "host" and begin >= 0:
                self.recording.edges.append((begin, call, Rule.HANDOVER))
                begin = -1
            self.recording.edges += [(transfer, op, Rule.EVENT) for transfer in self.waiting]
            self.waiting = self._exchange(label, thread) if layer >= 0 else []
        if thread != "host":
            end = self.recording.op(self.rank, "host", OpKind.HOST, "host", 0, whole)
            self.recording.edges.append((self.recording.last[self.rank, thread], end, Rule.HANDOVER))

    def _exchange(self, label: Label, thread: str) -> list[int]:
        """Collectives of one layer over the tensor and the expert group, for whom the next kernel waits."""
        done = []
        families = (
            ("tp", self.layout.tp, CollectiveKind.ALL_REDUCE),
            ("ep", self.layout.ep, CollectiveKind.ALL_TO_ALL),
        )
        for name, size, kind in families:
            if size > 1:
                ranks = members(self.layout, FAMILIES[name], self.rank)
                group = Group(f"{name} {ranks[0]}", "", ranks, size)
                whole = (label[0], Role.DISPATCH if name == "ep" else label[1], *label[2:])
                match = (name, ranks, label)
                done.append(
                    self.recording.communicate(
                        self.rank, f"stream {name}", kind, self.costs.transfer, whole, group, match, thread=thread
                    )
                )
        return done

    def _transfer(self, key: BlockKey) -> None:
        index = coordinates(self.layout, self.rank)
        peer = rank_at(self.layout, {**index, "pp": partner(key).chunk % self.layout.pp})
        send = key.part is Part.SEND
        sender = key if send else partner(key)
        kind = CollectiveKind.SEND if send else CollectiveKind.RECV
        label = (key.phase, Role.P2P, key.microbatch, key.chunk // self.layout.pp, -1)
        lane = f"stream {'send' if send else 'recv'} {peer}"
        match = (sender, index["dp"], index["tp"])
        done = self.recording.communicate(self.rank, lane, kind, self.costs.transfer, label, Group("pp"), match)
        self.posted.append(done)
        if not send:
            self.received[key.phase, key.microbatch, key.chunk] = done

    def _wait(self, *, host: bool) -> None:
        self.waiting += self.posted
        if host:
            self.recording.op(self.rank, "host", OpKind.CALL, "synchronize", 0, NOTHING)
            after = self.recording.op(self.rank, "host", OpKind.HOST, "host", 0, NOTHING)
            self.recording.edges += [(transfer, after, Rule.HOST_SYNC) for transfer in self.posted]
        self.posted = []

    def _gradients(self, chunk: int) -> None:
        ranks = members(self.layout, FAMILIES["dp"], self.rank)
        label = (Phase.SYNC, Role.GRAD_SYNC, -1, chunk, -1)
        group = Group(f"dp {ranks[0]}", "DATA_PARALLEL_GROUP", ranks, len(ranks))
        kind, match = CollectiveKind.ALL_REDUCE, ("gradients", ranks, chunk)
        self.recording.communicate(self.rank, "stream dp", kind, self.costs.gradients, label, group, match)
