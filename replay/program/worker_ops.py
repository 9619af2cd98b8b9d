"""A pipeline step at op level: compute, sends, receives, collectives and optimizer of every worker.

Dependencies follow Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI '25,
section 3) and the public StragglerAnalysis code's definitions:

* compute of a worker runs in schedule order; sends and receives of each direction have a stream of their own;
* a receive is posted after the pass before the one that needs it; with interleaving, whose exchanges are overlapped,
  after the pass of its phase before that one (the first backward receive: after the last forward but one);
* a send follows its compute; compute waits for its receive, never for a send;
* the first forward of a chunk waits for its parameters' all-gather;
* after the last compute: layer-norm gradients, embedding gradients (first and last stage together), gradient
  reduce-scatters, gradient clipping (all workers together), optimizer;
* reduce-scatters that overlap the backward follow the last backward of their chunk instead, last chunk first, and the
  layer-norm gradients follow them.

A communication member is an arrival and a transfer (R3): transfer = end - latest start over its members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from replay.graph.types import OpKind, Rule
from replay.layout import Layout
from replay.program.draft import Draft, DraftComm, DraftOp
from replay.program.p2p import neighbour, passes_of
from replay.program.passes import pass_name
from replay.program.pipeline_graph import Cost, PipelineGraph
from replay.program.recorded_steps import PHASE_WORDS, OpKey, Pass, rank_orders
from replay.recording import PassKind
from replay.trace import CollectiveKind

GATHER, SCATTER = "params-all-gather", "grads-reduce-scatter"
SEPARATE = "separate-grads-all-reduce"  # recorded where gradient reduce-scatters overlap the backward
EMBEDDING, CLIP = "embedding-grads-all-reduce", "optimizer-clip-main-grad"
TAIL = ("gc", "layernorm-grads-all-reduce", EMBEDDING, SCATTER, SEPARATE, CLIP, "optimizer")  # in execution order
COMMUNICATION = {
    "forward-send": CollectiveKind.SEND,
    "forward-recv": CollectiveKind.RECV,
    "backward-send": CollectiveKind.SEND,
    "backward-recv": CollectiveKind.RECV,
    GATHER: CollectiveKind.ALL_GATHER,
    SCATTER: CollectiveKind.REDUCE_SCATTER,
    SEPARATE: CollectiveKind.ALL_REDUCE,
    EMBEDDING: CollectiveKind.ALL_REDUCE,
    CLIP: CollectiveKind.ALL_REDUCE,
}
GROUPS = {
    GATHER: "data parallel",
    SCATTER: "data parallel",
    SEPARATE: "data parallel",
    EMBEDDING: "embedding",
    CLIP: "world",
}


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What to build: the layout, its replicas, how often each other op runs on a stage, and how long ops take."""

    layout: Layout
    dp_ranks: Sequence[int]
    counts: Mapping[tuple[int, str], int]  # (stage, op type) → ops a step
    cost: Callable[[Pass | OpKey], Cost]


def worker_graph(spec: WorkerSpec) -> PipelineGraph:
    """The step of ``spec`` as a graph; order comes from the schedule alone."""
    writer = _Writer(spec)
    orders = rank_orders(spec.layout)
    for dp_rank in spec.dp_ranks:
        for stage, order in enumerate(orders):
            writer.worker(passes_of(order, dp_rank, stage))
    writer.rendezvous()
    return PipelineGraph(writer.draft.build("synthesised step"), tuple(writer.ops))


@dataclass
class _Writer:
    """Writes workers one by one; members of collectives meet in :meth:`rendezvous`."""

    spec: WorkerSpec
    draft: Draft = field(default_factory=Draft)
    ops: list[Pass | OpKey] = field(default_factory=list)
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = field(default_factory=dict)
    matches: dict[tuple[object, ...], int] = field(default_factory=dict)
    streams: dict[tuple[int, int, str], int] = field(default_factory=dict)  # last op of a worker's stream

    def worker(self, order: Sequence[Pass]) -> None:
        """All ops of one worker."""
        dp_rank, stage = order[0].dp_rank, order[0].stage
        compute = self._compute(order)
        self._gathers(order, compute)
        for phase in (PassKind.FORWARD, PassKind.BACKWARD):
            self._exchanges([item for item in order if item.phase == phase], order, compute)
        last, scattered = [compute[order[-1]]], list[int]()
        if self.spec.counts.get((stage, SEPARATE)):
            scattered = self._overlapped_scatters(order, compute)
        for name in TAIL:
            if name == SCATTER and scattered:
                continue
            for k in range(self.spec.counts.get((stage, name), 0)):
                last = [self._after(OpKey(dp_rank, stage, name, k), last)]
            if name == "gc":
                last += scattered

    def _compute(self, order: Sequence[Pass]) -> dict[Pass, int]:
        """Passes in schedule order; the loss and neighbouring chunks of one rank hand over directly."""
        compute = {item: self._plain(item, pass_name(item, self.spec.layout)) for item in order}
        for before, after in pairwise(order):
            self.draft.edge(compute[before], compute[after], Rule.SCHEDULE)
        for item in order:
            producer = neighbour(item, self.spec.layout, -1)
            if producer is None and item.phase == PassKind.BACKWARD:
                self.draft.edge(compute[item._replace(phase=PassKind.FORWARD)], compute[item], Rule.DATA)
            elif producer is not None and producer.stage == item.stage:
                self.draft.edge(compute[producer], compute[item], Rule.DATA)
        return compute

    def _gathers(self, order: Sequence[Pass], compute: Mapping[Pass, int]) -> None:
        """Parameter all-gathers run one after another; gather k releases the first forward of chunk k."""
        dp_rank, stage = order[0].dp_rank, order[0].stage
        for k in range(self.spec.counts.get((stage, GATHER), 0)):
            arrival, transfer = self._member(OpKey(dp_rank, stage, GATHER, k), (GATHER, stage, k))
            self._stream((dp_rank, stage, GATHER), arrival, transfer)
            first = next(
                (i for i in order if i.phase == PassKind.FORWARD and i.chunk == min(k, self._last_chunk)), None
            )
            if first is not None:
                self.draft.edge(transfer, compute[first], Rule.DATA)

    @property
    def _last_chunk(self) -> int:
        return self.spec.layout.vpp - 1

    def _exchanges(self, same: Sequence[Pass], order: Sequence[Pass], compute: Mapping[Pass, int]) -> None:
        """Sends and receives of one phase of one worker."""
        word = PHASE_WORDS[same[0].phase]
        sent = received = 0
        for item in same:
            producer, consumer = (neighbour(item, self.spec.layout, direction) for direction in (-1, 1))
            if producer is not None and producer.stage != item.stage:
                key = OpKey(item.dp_rank, item.stage, f"{word}-recv", received)
                arrival, transfer = self._member(key, ("p2p", item))
                self._stream((item.dp_rank, item.stage, key.op_type), arrival, transfer)
                posted = _posted_after(item, order, self.spec.layout)
                if posted is not None:
                    self.draft.edge(compute[posted], arrival, Rule.SCHEDULE)
                self.draft.edge(transfer, compute[item], Rule.P2P)
                received += 1
            if consumer is not None and consumer.stage != item.stage:
                key = OpKey(item.dp_rank, item.stage, f"{word}-send", sent)
                arrival, transfer = self._member(key, ("p2p", consumer))
                self._stream((item.dp_rank, item.stage, key.op_type), arrival, transfer)
                self.draft.edge(compute[item], arrival, Rule.SCHEDULE)
                sent += 1

    def _overlapped_scatters(self, order: Sequence[Pass], compute: Mapping[Pass, int]) -> list[int]:
        """Reduce-scatters one after another, each after its chunk's last backward; the last of them."""
        dp_rank, stage = order[0].dp_rank, order[0].stage
        transfer: list[int] = []
        for k in range(self.spec.counts.get((stage, SCATTER), 0)):
            chunk = max(0, self._last_chunk - k)
            last = [item for item in order if item.phase == PassKind.BACKWARD and item.chunk == chunk][-1]
            arrival, end = self._member(OpKey(dp_rank, stage, SCATTER, k), (SCATTER, stage, k))
            self._stream((dp_rank, stage, SCATTER), arrival, end)
            self.draft.edge(compute[last], arrival, Rule.DATA)
            transfer = [end]
        return transfer

    def _after(self, key: OpKey, last: Sequence[int]) -> int:
        """An op of the step's tail, after the ops ``last``; the op that the next one follows."""
        if key.op_type not in COMMUNICATION:
            op = self._plain(key, key.op_type)
            for before in last:
                self.draft.edge(before, op, Rule.SCHEDULE)
            return op
        members = {
            EMBEDDING: (EMBEDDING, key.dp_rank, key.order),
            SCATTER: (SCATTER, key.stage, key.order),
            SEPARATE: (SEPARATE, key.stage, key.order),
            CLIP: (CLIP, key.order),
        }
        arrival, transfer = self._member(key, members[key.op_type])
        for before in last:
            self.draft.edge(before, arrival, Rule.SCHEDULE)
        return transfer

    def _plain(self, op: Pass | OpKey, name: str) -> int:
        """An op that runs alone on its worker."""
        cost = self.spec.cost(op)
        self.ops.append(op)
        return self.draft.op(DraftOp(name, self._rank(op), "compute", OpKind.COMPUTE, cost.duration_ns, cost.grade))

    def _member(self, key: OpKey, members: tuple[object, ...]) -> tuple[int, int]:
        """Arrival and transfer of one member of the communication called ``members``."""
        cost, name, rank = self.spec.cost(key), key.op_type, self._rank(key)
        match = self.matches.setdefault(members, len(self.matches))
        row = self.draft.comm(DraftComm(COMMUNICATION[name], GROUPS.get(name, "pipeline"), match, size=-1))
        arrival = self.draft.op(DraftOp(name, rank, name, OpKind.ARRIVAL, 0, cost.grade, row))
        transfer = self.draft.op(DraftOp(name, rank, name, OpKind.TRANSFER, cost.duration_ns, cost.grade, row))
        self.ops += [key, key]
        self.groups.setdefault(members, []).append((arrival, transfer))
        return arrival, transfer

    def _stream(self, stream: tuple[int, int, str], arrival: int, transfer: int) -> None:
        """Ops of one stream run one after another."""
        if stream in self.streams:
            self.draft.edge(self.streams[stream], arrival, Rule.STREAM_ORDER)
        self.streams[stream] = transfer

    def _rank(self, op: Pass | OpKey) -> int:
        return op.dp_rank * self.spec.layout.pp + op.stage

    def rendezvous(self) -> None:
        """No member's transfer starts before every member has arrived."""
        for members, pairs in self.groups.items():
            rule = Rule.P2P if members[0] == "p2p" else Rule.COLLECTIVE
            for arrival, _ in pairs:
                for _, transfer in pairs:
                    self.draft.edge(arrival, transfer, rule)


def _posted_after(item: Pass, order: Sequence[Pass], layout: Layout) -> Pass | None:
    """The pass after which the receive of ``item`` is posted; None at the beginning of the step."""
    place = order.index(item)
    if layout.vpp == 1:
        return order[place - 1] if place else None
    before = [other for other in order[:place] if other.phase == item.phase]
    if before or item.phase == PassKind.FORWARD:
        return before[-1] if before else None
    return order[place - 2] if place >= 2 else None
