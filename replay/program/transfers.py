"""Which pass a pipeline transfer belongs to, and which host waits belong to an exchange.

Works on what the leading ops of a rank ask for, in order of time: a block, a pass, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from replay.program.keys import P2P_PARTS, PASS_PARTS, BlockKey, Part


def settle(wanted: list[BlockKey | None], thread: Sequence[int]) -> list[BlockKey | None]:
    """Give the ops of a transfer's range its direction, and drop waits that no transfer precedes.

    Both hold for each ``thread`` by itself: others work in between. A transfer without a range takes its pass from all.
    """
    settled = list(wanted)
    for number in set(thread):
        own = [index for index, other in enumerate(thread) if other == number]
        for index, key in zip(own, _settle_thread([wanted[index] for index in own]), strict=True):
            settled[index] = key
    return _attributed(settled)


def _settle_thread(wanted: list[BlockKey | None]) -> list[BlockKey | None]:
    """A range is a run of ops with one pass, labelled as pipeline transfer; its launch says SEND or RECV.

    Work that only some pass is named for (part BEGIN) may lie between an exchange and the wait for it.
    """
    settled = list(wanted)
    run: list[int] = []
    for index, key in enumerate([*wanted, None]):
        inside = key is not None and key.part in P2P_PARTS and key.microbatch >= 0
        if run and not (inside and key is not None and key[1:] == _key(wanted, run[0])[1:]):
            launches = [_key(wanted, i) for i in run if _key(wanted, i).part is not Part.WAIT]
            for i in run:
                settled[i] = launches[0] if launches else None
            run = []
        if inside:
            run.append(index)
    exchanging = False
    for index, key in enumerate(settled):
        if key is not None and key.part is not Part.BEGIN:
            exchanging = key.part in P2P_PARTS and (key.part is not Part.WAIT or exchanging)
            settled[index] = None if key.part is Part.WAIT and not exchanging else key
    return settled


def _key(wanted: list[BlockKey | None], index: int) -> BlockKey:
    key = wanted[index]
    assert key is not None
    return key


def _attributed(wanted: list[BlockKey | None]) -> list[BlockKey | None]:
    """Transfers without a range of their own: a send belongs to the pass before it, a receive to the one after it."""
    result = list(wanted)
    for part, order in ((Part.SEND, range(len(wanted))), (Part.RECV, range(len(wanted) - 1, -1, -1))):
        nearest: BlockKey | None = None
        for index in order:
            key = result[index]
            if key is not None and key.part in PASS_PARTS:
                nearest = key
            elif key is not None and key.part is part and key.microbatch < 0 and nearest is not None:
                result[index] = nearest._replace(part=part, layer=-1)
    return result
