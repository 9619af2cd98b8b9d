"""Exchanges between pipeline neighbours: what is posted after which pass, what waits for it, and what it costs (R7).

A rank exchanges in batches. A batch is posted after one pass and waited for before another; it sends outputs that are
ready and receives inputs that are needed next. Three habits of Megatron are switches here:

* not overlapped, one chunk a rank: one batch between every two passes;
* not overlapped, interleaved: in the steady state one batch after each forward/backward *pair*, so a forward's output
  leaves after the backward that follows it (``send_forward_backward_recv_forward_backward``);
* overlapped: forwards and backwards exchange separately, each batch hidden behind the pass of the other phase.

``blocking`` sends hold their batch until the receiver has posted too; eager ones do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from replay.layout import Layout
from replay.pipelines import ScheduleOrder
from replay.program.recorded_steps import Pass
from replay.recording import PassKind


@dataclass(frozen=True, slots=True)
class Batch:
    """One exchange of one rank; ``post`` is None before its first pass, ``wait`` None after its last."""

    post: Pass | None
    wait: Pass | None
    sends: tuple[Pass, ...]  # passes of this rank whose output leaves
    receives: tuple[Pass, ...]  # passes of this rank whose input arrives
    exposed: bool  # nothing runs between post and wait

    @property
    def messages(self) -> int:
        """Tensors in flight."""
        return len(self.sends) + len(self.receives)


class CostKey(NamedTuple):
    """What the cost of a batch depends on.

    ``own``: the rank's own post came last, so the cost is that of launching; else a peer's post did, and the cost is
    that of the message. They are equal where both sides only start to exchange when both are there.
    """

    messages: int
    exposed: bool
    own: bool


@dataclass(frozen=True, slots=True)
class ExchangeModel:
    """Habits and costs of the exchanges of a recording. Cost is from a post to the earliest start of what waits."""

    overlapped: bool = False
    blocking: bool = False
    cost_ns: Mapping[CostKey, int] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()

    def cost(self, batch: Batch, *, own: bool) -> int:
        """Cost of a batch; of the nearest kind that was seen when this one was not, 0 without any."""
        alike = [key for key in self.cost_ns if key.own == own]
        if not batch.messages or not alike:
            return 0
        nearest = min(alike, key=lambda k: (k.exposed != batch.exposed, abs(k.messages - batch.messages), k.messages))
        return self.cost_ns[nearest]


def neighbour(item: Pass, layout: Layout, direction: int) -> Pass | None:
    """The pass that consumes the output of ``item`` (direction 1) or produces its input (-1); None at the ends.

    Forwards go up the p·v chunks of the model, backwards go down; chunk c of rank r is number c·p + r.
    """
    step = direction if item.phase == PassKind.FORWARD else -direction
    place = item.chunk * layout.pp + item.stage + step
    if not 0 <= place < layout.pp * layout.vpp:
        return None
    return item._replace(stage=place % layout.pp, chunk=place // layout.pp)


def passes_of(order: ScheduleOrder, dp_rank: int, stage: int) -> list[Pass]:
    """Passes of one worker in execution order."""
    return [
        Pass(dp_rank, stage, PassKind(phase), int(chunk), int(microbatch))
        for phase, chunk, microbatch in zip(order.phase, order.chunk, order.microbatch, strict=True)
    ]


def batches(order: Sequence[Pass], warmup: int, layout: Layout, *, overlapped: bool) -> list[Batch]:
    """Exchanges of one worker whose passes run in ``order``."""
    if overlapped:
        phases = (PassKind.FORWARD, PassKind.BACKWARD)
        chains = [[[item] for item in order if item.phase == phase] for phase in phases]
    elif layout.vpp > 1:
        chains = [_pairs(order, warmup)]
    else:
        chains = [[[item] for item in order]]
    following = dict(pairwise(order))
    return [
        _batch(before, after, layout, following)
        for chain in chains
        for before, after in zip([[], *chain], [*chain, []], strict=True)
    ]


def _pairs(order: Sequence[Pass], warmup: int) -> list[list[Pass]]:
    """Warm-up forwards alone, then forward/backward pairs, then the backwards that remain alone."""
    forwards = sum(item.phase == PassKind.FORWARD for item in order)
    steady = 2 * (forwards - warmup)
    head = [[item] for item in order[:warmup]]
    pairs = [list(order[k : k + 2]) for k in range(warmup, warmup + steady, 2)]
    return head + pairs + [[item] for item in order[warmup + steady :]]


def _batch(before: Sequence[Pass], after: Sequence[Pass], layout: Layout, following: Mapping[Pass, Pass]) -> Batch:
    post, wait = before[-1] if before else None, after[0] if after else None
    return Batch(
        post,
        wait,
        tuple(item for item in before if crosses(item, layout, 1)),
        tuple(item for item in after if crosses(item, layout, -1)),
        exposed=post is not None and following.get(post) == wait,
    )


def crosses(item: Pass, layout: Layout, direction: int) -> bool:
    """True when the neighbour exists and is on another rank."""
    other = neighbour(item, layout, direction)
    return other is not None and other.stage != item.stage


def _blocked_by(item: Pass, layout: Layout) -> Pass | None:
    """The pass whose receive must be posted before the output of ``item`` has left.

    With groups larger than the pipeline, what wraps from the last rank to the first is received into a buffer long
    before it is needed (Megatron's ``fwd_recv_buffer``), so it holds nobody.
    """
    consumer = neighbour(item, layout, 1)
    wraps = consumer is not None and consumer.chunk != item.chunk
    return None if wraps and (layout.group_size or layout.pp) > layout.pp else consumer


@dataclass(frozen=True, slots=True)
class Exchanges:
    """All batches of a step, with where every output is sent and every input received."""

    batches: tuple[Batch, ...]
    sender: Mapping[Pass, Batch]
    receiver: Mapping[Pass, Batch]

    def peers(self, batch: Batch, layout: Layout, *, blocking: bool) -> list[Pass]:
        """Passes of other ranks after whose end the batch can complete: its producers' posts, blocked sends' peers."""
        peers = [self.sender[other] for item in batch.receives if (other := neighbour(item, layout, -1))]
        if blocking:
            peers += [self.receiver[item] for item in map(partial(_blocked_by, layout=layout), batch.sends) if item]
        return list(dict.fromkeys(peer.post for peer in peers if peer.post is not None))


def exchanges(orders: Sequence[ScheduleOrder], layout: Layout, dp_rank: int, *, overlapped: bool) -> Exchanges:
    """Batches of every pipeline rank of one replica."""
    found: list[Batch] = []
    for stage, order in enumerate(orders):
        found += batches(passes_of(order, dp_rank, stage), order.warmup, layout, overlapped=overlapped)
    sender = {item: batch for batch in found for item in batch.sends}
    receiver = {item: batch for batch in found for item in batch.receives}
    return Exchanges(tuple(found), sender, receiver)
