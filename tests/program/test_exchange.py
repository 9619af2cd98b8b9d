"""Where schedules send, receive and wait."""

import pytest

from replay.layout import Layout
from replay.program.exchange import Action, overlaps, partner, steps
from replay.program.keys import BlockKey, Part
from replay.program.types import Phase
from traces.record.schedules import Pass, schedule


def layout(p: int, v: int, m: int) -> Layout:
    """One rank a stage."""
    return Layout(pp=p, vpp=v, microbatches=m, world_size=p, schedule="interleaved" if v > 1 else "1f1b")


def test_first_stage_of_1f1b_in_words() -> None:
    """p 2, m 2, stage 0: send after each forward, receive before each backward; F to B shares one exchange."""
    words = [
        action.name
        if key is None
        else f"{key.part.name if action is Action.POST else ''}{key.phase.name[0]}{key.microbatch}"
        for action, key in steps(layout(2, 1, 2), 0, overlapped=False)
    ]
    assert words == ["F0", "SENDF0", "HOST_WAIT", "F1", "SENDF1", "RECVB0", "HOST_WAIT", "B0", "RECVB1", "HOST_WAIT",
                     "B1"]  # fmt: skip


def between_passes(actions: list[object]) -> list[object]:
    """Passes, and between them the set of transfers posted."""
    result: list[object] = [frozenset()]
    for action in actions:
        if isinstance(action, frozenset):
            result[-1] = result[-1] | action  # type: ignore[operator]
        else:
            result += [action, frozenset()]
    return result


@pytest.mark.parametrize(("p", "v", "m"), [(2, 1, 4), (4, 1, 8), (4, 1, 2), (2, 2, 4), (2, 2, 2), (4, 2, 8), (2, 4, 8)])
def test_same_transfers_as_the_recorder(p: int, v: int, m: int) -> None:
    """The recorder follows Megatron's code on its own; both place every transfer between the same passes."""
    for stage in range(p):
        ours = between_passes(
            [
                (key.phase.name.lower(), key.microbatch, key.chunk // p)
                if action is Action.PASS
                else frozenset({(key.part.name.lower(), key.phase.name.lower(), key.microbatch, key.chunk // p)})
                for action, key in steps(layout(p, v, m), stage, overlapped=v > 1)
                if key is not None
            ]
        )
        theirs = between_passes(
            [
                (action.phase, action.microbatch, action.chunk)
                if isinstance(action, Pass)
                else frozenset((t.direction, t.phase, t.microbatch, t.chunk) for t in action.transfers)
                for action in schedule(p, stage, m, v)
            ]
        )
        assert ours == theirs


@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize(("p", "v", "m"), [(4, 2, 4), (4, 2, 8), (4, 3, 12)])
def test_every_send_meets_its_receive(p: int, v: int, m: int, overlapped: bool) -> None:
    """Each stage's posts pair up: 2 x m x (p v - 1) transfers, each with exactly one partner."""
    posts = [
        key
        for stage in range(p)
        for action, key in steps(layout(p, v, m), stage, overlapped=overlapped)
        if action is Action.POST and key is not None
    ]
    sends = {key for key in posts if key.part is Part.SEND}
    assert len(posts) == len(set(posts)) == 2 * len(sends) == 2 * 2 * m * (p * v - 1)
    assert {partner(key) for key in sends} == {key for key in posts if key.part is Part.RECV}


def test_partner_of_a_backward_send() -> None:
    """A gradient leaves chunk 3 for chunk 2."""
    assert partner(BlockKey(Part.SEND, Phase.BACKWARD, 5, 3)) == BlockKey(Part.RECV, Phase.BACKWARD, 5, 2)


def test_overlap_follows_megatron() -> None:
    """Interleaving overlaps by default; a blocking interleaved source keeps blocking where Megatron allows it."""
    one, two, wide = layout(2, 1, 4), layout(2, 2, 4), layout(4, 2, 4)
    assert not overlaps(two, one, blocking=False)
    assert overlaps(one, two, blocking=True)
    assert overlaps(wide, wide, blocking=False)
    assert not overlaps(wide, wide, blocking=True)
    assert overlaps(wide, two, blocking=True)
