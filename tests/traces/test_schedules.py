"""The recorder's schedules against Megatron's order, written down by hand."""

from __future__ import annotations

import pytest

from traces.record.schedules import Action, Exchange, Pass, Transfer, Wait, schedule

SIZES = [(2, 8, 1), (4, 8, 1), (4, 2, 1), (1, 3, 1), (2, 4, 2), (2, 8, 4), (4, 8, 2), (4, 4, 3)]
GPIPE, BLOCKING = {"gpipe": True}, {"overlap": False}
CASES = [(size, {}) for size in SIZES]
CASES += [((1, 3, 1), GPIPE), ((4, 8, 1), GPIPE), ((4, 8, 2), BLOCKING), ((3, 6, 3), BLOCKING)]


def passes(actions: tuple[Action, ...]) -> str:
    """``F0.1`` is the forward of micro-batch 0 through chunk 1."""
    return " ".join(f"{a.phase[0].upper()}{a.microbatch}.{a.chunk}" for a in actions if isinstance(a, Pass))


def transfers(actions: tuple[Action, ...], direction: str, peer: int) -> list[tuple[str, int]]:
    """(phase, micro-batch) of the messages to or from a stage, in order."""
    sent = [t for a in actions if isinstance(a, Exchange) for t in a.transfers]
    return [(t.phase, t.microbatch) for t in sent if t.direction == direction and t.peer == peer]


def test_1f1b_of_two_stages() -> None:
    """min(p - r - 1, m) forwards first, then one forward one backward."""
    assert passes(schedule(2, 0, 3, 1)) == "F0.0 F1.0 B0.0 F2.0 B1.0 B2.0"
    assert passes(schedule(2, 1, 3, 1)) == "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0"


def test_1f1b_exchanges_in_pairs_and_the_host_waits() -> None:
    """Steady state of the first stage: the forward's output goes out while the oldest gradient comes in."""
    exchange = schedule(2, 0, 3, 1)[3]
    send, recv = Transfer("send", "forward", 1, 0, 1), Transfer("recv", "backward", 0, 0, 1)
    assert exchange == Exchange((send, recv), Wait.HOST)


def test_interleaved_of_two_stages() -> None:
    """Warm-up 2(p - r - 1) + (v - 1)p: four forwards on the first stage, two on the last."""
    first = "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0"
    last = "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0"
    assert passes(schedule(2, 0, 4, 2)) == first
    assert passes(schedule(2, 1, 4, 2)) == last


def test_gpipe_runs_all_forwards_first() -> None:
    """Two stages, two micro-batches."""
    assert passes(schedule(2, 0, 2, 1, gpipe=True)) == passes(schedule(2, 1, 2, 1, gpipe=True)) == "F0.0 F1.0 B0.0 B1.0"


def test_without_overlap_a_pair_of_passes_shares_one_exchange() -> None:
    """Steady state of the middle of three stages: both results out, both inputs in, and the host waits."""
    actions = schedule(3, 1, 6, 2, overlap=False)
    pair = next(i for i, a in enumerate(actions) if isinstance(a, Pass) and a.phase == "backward")
    exchange = actions[pair + 1]
    assert isinstance(exchange, Exchange)
    assert [(t.direction, t.phase) for t in exchange.transfers] == [
        ("send", "forward"), ("send", "backward"), ("recv", "forward"), ("recv", "backward"),
    ]  # fmt: skip
    assert exchange.wait is Wait.HOST
    assert passes(actions) == passes(schedule(3, 1, 6, 2))


def test_interleaving_needs_whole_groups() -> None:
    """Three micro-batches do not fill groups of two."""
    with pytest.raises(ValueError, match=r"micro-batches \(3\) divisible by stages \(2\)"):
        schedule(2, 0, 3, 2)


@pytest.mark.parametrize(("size", "habits"), CASES)
def test_what_one_stage_sends_the_other_receives_in_order(size: tuple[int, int, int], habits: dict[str, bool]) -> None:
    """Messages between two stages travel first in, first out, so both must name them in one order."""
    stages, microbatches, chunks = size
    actions = [schedule(stages, stage, microbatches, chunks, **habits) for stage in range(stages)]
    for a in range(stages):
        for b in range(stages):
            assert transfers(actions[a], "send", b) == transfers(actions[b], "recv", a)


@pytest.mark.parametrize(("size", "habits"), CASES)
def test_inputs_arrive_before_their_pass(size: tuple[int, int, int], habits: dict[str, bool]) -> None:
    """Every pass but those at the ends of the pipeline was received before, and each pass runs once."""
    stages, microbatches, chunks = size
    for stage in range(stages):
        arrived, done = set(), []
        for action in schedule(stages, stage, microbatches, chunks, **habits):
            if isinstance(action, Exchange):
                arrived |= {(t.phase, t.microbatch, t.chunk) for t in action.transfers if t.direction == "recv"}
                continue
            at_start = action.phase == "forward" and (stage, action.chunk) == (0, 0)
            at_end = action.phase == "backward" and (stage, action.chunk) == (stages - 1, chunks - 1)
            key = (action.phase, action.microbatch, action.chunk)
            assert at_start or at_end or key in arrived
            done.append(key)
        assert len(done) == len(set(done)) == 2 * microbatches * chunks
