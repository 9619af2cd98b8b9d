"""Jobs, groups and device work of the recorder."""

from __future__ import annotations

import pytest

from traces.record import groups
from traces.record.durations import Durations
from traces.record.job import Job, Model
from traces.record.model import Collective, DeviceWork, Kernel

JOB = Job("job", pp=2, dp=4, ep=2, gbs=16, model=Model(layers=8, experts=8))


def test_groups_follow_megatrons_rank_order() -> None:
    """tp-cp-ep-dp-pp with two stages of four ranks and ep 2."""
    made = groups.members(JOB)
    assert made[groups.PIPELINE] == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert made[groups.DATA] == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert made[groups.EXPERT] == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert made[groups.EXPERT_DATA] == ((0, 2), (1, 3), (4, 6), (5, 7))
    assert made[groups.EXPERT_NORM] == ((0, 1, 4, 5), (2, 3, 6, 7))


def test_chunks_take_layers_in_turn() -> None:
    """Virtual stage chunk x pp + stage: with two chunks the first stage holds layers 0-1 and 4-5."""
    job = Job("job", vpp=2)
    assert [list(job.chunk_layers(0, c)) for c in (0, 1)] == [[0, 1], [4, 5]]
    assert [list(job.chunk_layers(1, c)) for c in (0, 1)] == [[2, 3], [6, 7]]


def test_sizes_that_do_not_divide_are_refused() -> None:
    """The message names both numbers."""
    with pytest.raises(ValueError, match=r"experts \(16\) must divide by ep \(3\)"):
        Job("job", dp=3, ep=3, gbs=63)


def test_doubling_ep_doubles_the_rows_of_half_the_experts() -> None:
    """4096 tokens x 2 over 16 experts: 2048 rows each with ep 4, 4096 with ep 8."""
    four, eight = Job("job", ep=4), Job("job", ep=8)
    assert (four.local_experts, four.rows_per_expert) == (4, 2048)
    assert (eight.local_experts, eight.rows_per_expert) == (2, 4096)


def test_backward_mirrors_forward() -> None:
    """Modules in reverse, both with two exchanges a layer, and two GEMMs for each one of the forward."""
    work = DeviceWork(JOB, Durations())
    forward, backward = work.layer("forward"), work.layer("backward")
    assert [name for name, _ in backward] == [name for name, _ in reversed(forward)]
    for modules, gemms in ((forward, 4), (backward, 8)):
        ops = [op for _, ops in modules for op in ops]
        assert sum(isinstance(op, Collective) for op in ops) == 2
        assert sum(isinstance(op, Kernel) and op.op != "" for op in ops) == gemms


def test_nothing_is_exchanged_where_all_experts_are_local() -> None:
    """ep 1: no dispatch, no combine."""
    layer = dict(DeviceWork(Job("job", ep=1), Durations()).layer("forward"))
    assert layer["dispatch"] == ()
    assert all(isinstance(op, Kernel) for op in layer["combine"])


def test_expert_gradients_stay_where_they_are_unique() -> None:
    """With ep = dp every expert lives once, so only dense gradients are summed."""
    assert [op.group for op in DeviceWork(Job("job", ep=8), Durations()).grad_sync(0, 0)] == [groups.DATA]
