"""Exchange habits and costs are read off the starts of passes."""

from __future__ import annotations

import pytest

from replay.program.p2p import CostKey
from replay.program.p2p_learning import learn_exchange
from replay.program.pipeline_program import lift
from replay.program.recorded_steps import Pass, recorded_steps
from replay.simulate.engine import simulate
from tests.pipeline_recordings import MS, F, Item, layout_of, recording_of


def pass_ms(item: Item) -> int:
    """Forward 10 ms, backward 20 ms."""
    return 10 if item[1] == F else 20


def test_the_cost_of_a_message_is_found() -> None:
    """Every consumer that was ready starts 3 ms after its producer."""
    layout = layout_of(4, 8)
    exchange = learn_exchange(recorded_steps(recording_of(layout, pass_ms, lag_ms=3)).steady, layout)
    assert exchange.cost_ns[CostKey(1, exposed=True, own=False)] == 3 * MS
    assert not exchange.overlapped


def test_eager_sends_are_told_from_blocking_ones() -> None:
    """Rank 0's third forward starts at 20 ms, while rank 1 (30 ms a forward) is still in its first."""
    layout = layout_of(4, 8)
    recording = recording_of(layout, lambda item: 30 if item[0] else 10)
    assert not learn_exchange(recorded_steps(recording).steady, layout).blocking


def test_one_rank_has_nothing_to_learn() -> None:
    """No neighbours, no exchanges."""
    layout = layout_of(1, 4)
    assert learn_exchange(recorded_steps(recording_of(layout, pass_ms)).steady, layout).cost_ns == {}


@pytest.mark.parametrize("lag_ms", [0, 4])
def test_what_was_executed_by_the_rules_replays_exactly(lag_ms: int) -> None:
    """p = 4, m = 8: lags and durations are learned from the recording alone."""
    program = lift(recording_of(layout_of(4, 8), pass_ms, lag_ms))
    step = program.steps.median
    assert simulate(program.replay(step).graph).step_ns == pytest.approx(step.step_ns, rel=0.01)


def test_labels_come_from_the_schedule_where_the_format_has_none() -> None:
    """Primus with several chunks: the k-th forward of a rank is the schedule's k-th."""
    from dataclasses import replace  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    layout = layout_of(2, 4, 2)
    recording = recording_of(layout, pass_ms, steps=1)
    order = np.zeros(len(recording), np.int32)
    for rank in range(2):
        for kind in (0, 1):
            rows = np.flatnonzero((recording.stage == rank) & (recording.kind == kind))
            order[rows] = np.arange(len(rows))
    unknown = np.full(len(recording), -1, np.int32)
    bare = replace(recording, chunk=unknown, microbatch=unknown, order=order)
    assert recorded_steps(bare).steps[0].passes == recorded_steps(recording).steps[0].passes
    assert Pass(0, 1, F, 1, 3) in recorded_steps(bare).steps[0].passes
