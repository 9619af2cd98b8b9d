"""Where a pipeline schedule sends, receives and waits: the passes of one rank with the transfers between them.

Sources: Megatron core ``pipeline_parallel/schedules.py``. Without interleaving, every exchange blocks; opposite phases
share one exchange (``send_forward_recv_backward``), equal phases use two (``send_forward``, then ``recv_forward``).
With interleaving, an exchange posts the send of the pass just done and the receive of the next pass of the same phase;
overlapped, it is waited for where its data is used; only warm-up (but its last) and cool-down wait for their sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from replay.core.errors import RefusedError
from replay.layout import Layout
from replay.pipelines import schedule
from replay.program.keys import BlockKey, Part
from replay.program.types import Phase
from replay.recording import PassKind


class Action(IntEnum):
    """What a rank does next."""

    PASS = 0  # a forward or backward pass; it first waits, on its stream, for its own receive
    POST = 1  # start a send or receive
    STREAM_WAIT = 2  # device work from here on waits for everything posted since the last wait
    HOST_WAIT = 3  # the host too


class Step(NamedTuple):
    """One action; ``key`` is the pass (part BEGIN) or the transfer (part SEND or RECV)."""

    action: Action
    key: BlockKey | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A pipeline rank among ``size``, holding ``chunks`` chunks."""

    index: int
    size: int
    chunks: int

    def input_of(self, key: BlockKey) -> BlockKey | None:
        """Receive that a pass needs, ``None`` where its input is local."""
        last = self.size * self.chunks - 1
        needed = key.chunk > 0 if key.phase is Phase.FORWARD else key.chunk < last
        return key._replace(part=Part.RECV) if needed and self.size > 1 else None

    def output_of(self, key: BlockKey) -> BlockKey | None:
        """Send of what a pass produced, ``None`` where nobody else needs it."""
        last = self.size * self.chunks - 1
        needed = key.chunk < last if key.phase is Phase.FORWARD else key.chunk > 0
        return key._replace(part=Part.SEND) if needed and self.size > 1 else None


def partner(key: BlockKey) -> BlockKey:
    """The other side of a transfer: forward outputs go to the next chunk, backward outputs to the previous one."""
    downstream = (key.phase is Phase.FORWARD) == (key.part is Part.SEND)
    other = Part.RECV if key.part is Part.SEND else Part.SEND
    return key._replace(part=other, chunk=key.chunk + (1 if downstream else -1))


def overlaps(source: Layout, target: Layout, *, blocking: bool) -> bool:
    """Whether the target's exchanges are overlapped: Megatron does so by default with interleaving, and only there.

    ``blocking``: the source's host was seen to wait for its exchanges. A source that interleaves and blocks keeps doing
    so where Megatron allows it (more than two pipeline ranks).
    """
    if target.vpp == 1:
        return False
    return target.overlap_p2p or source.vpp == 1 or not blocking or target.pp == 2


def passes(layout: Layout, stage: int) -> list[BlockKey]:
    """Passes of one pipeline rank in the order of the layout's schedule, chunks counted over the whole model."""
    if layout.microbatches is None:
        raise RefusedError("the number of micro-batches is not known; give --microbatches, or --gbs and --mbs")
    name = layout.schedule or ("interleaved" if layout.vpp > 1 else "1f1b")
    group = layout.group_size or layout.pp
    chosen = schedule(name)
    chosen.check(layout.pp, layout.microbatches, layout.vpp, group)
    order = chosen.order(layout.pp, stage, layout.microbatches, layout.vpp, group)
    phases = {int(PassKind.FORWARD): Phase.FORWARD, int(PassKind.BACKWARD): Phase.BACKWARD}
    return [
        BlockKey(Part.BEGIN, phases[int(phase)], int(microbatch), int(chunk) * layout.pp + stage)
        for phase, microbatch, chunk in zip(order.phase, order.microbatch, order.chunk, strict=True)
    ]


def steps(layout: Layout, stage: int, *, overlapped: bool) -> list[Step]:
    """Everything one pipeline rank does between its prologue and its tail."""
    place = Stage(stage, layout.pp, layout.vpp)
    order = passes(layout, stage)
    if layout.pp == 1:
        return [Step(Action.PASS, key) for key in order]
    if layout.vpp == 1:
        return list(_alternating(place, order))
    return list(_interleaved(place, order, overlapped=overlapped))


def _post(*transfers: BlockKey | None, wait: Action | None) -> Iterator[Step]:
    """Start what there is of ``transfers`` and wait for it."""
    started = [Step(Action.POST, key) for key in transfers if key is not None]
    yield from started
    if started and wait is not None:
        yield Step(wait)


def _alternating(place: Stage, order: list[BlockKey]) -> Iterator[Step]:
    """Blocking exchanges between consecutive passes (Megatron without interleaving; any one-chunk schedule)."""
    yield from _post(place.input_of(order[0]), wait=Action.HOST_WAIT)
    for done, following in zip(order, [*order[1:], None], strict=True):
        yield Step(Action.PASS, done)
        output = place.output_of(done)
        needed = place.input_of(following) if following is not None else None
        if following is not None and following.phase is not done.phase:
            yield from _post(output, needed, wait=Action.HOST_WAIT)
        else:
            yield from _post(output, wait=Action.HOST_WAIT)
            yield from _post(needed, wait=Action.HOST_WAIT)


def _interleaved(place: Stage, order: list[BlockKey], *, overlapped: bool) -> Iterator[Step]:
    """Warm-up, steady state and cool-down of Megatron's interleaved schedule."""
    forward = [key for key in order if key.phase is Phase.FORWARD]
    backward = [key for key in order if key.phase is Phase.BACKWARD]
    warmup = next(i for i, key in enumerate(order) if key.phase is Phase.BACKWARD)
    warmup = warmup if warmup == len(forward) else warmup - 1
    wait = Action.STREAM_WAIT if overlapped else Action.HOST_WAIT
    yield from _post(place.input_of(forward[0]), wait=wait)
    for index in range(warmup):
        yield Step(Action.PASS, forward[index])
        first = place.input_of(backward[0]) if index + 1 == warmup else None
        together = [place.output_of(forward[index]), _input(place, forward, index + 1)]
        if overlapped:
            steady = index + 1 == warmup < len(forward)
            yield from _post(*together, first, wait=None if steady else wait)
        else:
            yield from _post(*together, first, wait=wait)
    for index in range(len(forward) - warmup):
        yield from _steady(place, forward, backward, (warmup + index, index), overlapped=overlapped)
    for index in range(len(forward) - warmup, len(backward)):
        yield Step(Action.PASS, backward[index])
        yield from _post(place.output_of(backward[index]), _input(place, backward, index + 1), wait=wait)


def _steady(
    place: Stage, forward: list[BlockKey], backward: list[BlockKey], index: tuple[int, int], *, overlapped: bool
) -> Iterator[Step]:
    """One forward and one backward, each followed by its own exchange, or both by one that blocks."""
    ahead, behind = index
    after_forward = [place.output_of(forward[ahead]), _input(place, forward, ahead + 1)]
    after_backward = [place.output_of(backward[behind]), _input(place, backward, behind + 1)]
    yield Step(Action.PASS, forward[ahead])
    if overlapped:
        yield from _post(*after_forward, wait=None)
    yield Step(Action.PASS, backward[behind])
    if overlapped:
        yield from _post(*after_backward, wait=None)
    else:
        yield from _post(*after_forward, *after_backward, wait=Action.HOST_WAIT)


def _input(place: Stage, order: list[BlockKey], index: int) -> BlockKey | None:
    return place.input_of(order[index]) if index < len(order) else None
