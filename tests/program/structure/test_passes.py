"""Passes from the autograd engine: a run of it is a backward pass, and what made its nodes is the forward pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.program.structure.passes import phase_of
from replay.program.types import Phase
from tests.program.events import AUTOGRAD, HOST, graph_of, span, trace_of
from tests.program.structure.steps import Step


def phases(step: Step, microbatches: int | None = None) -> list[tuple[str, int]]:
    """Phase and micro-batch of every kernel, in order of launch."""
    trace = trace_of(step.rows)
    labels = label(graph_of(trace), trace, Layout(microbatches=microbatches), ModelSpec())
    return [(Phase(p).name, int(m)) for p, m in zip(labels.phase, labels.microbatch, strict=True)]


def accumulation(step: Step, order: str) -> Step:
    """Passes of two operators each: ``F`` runs the next forward one, ``B`` the oldest open backward one."""
    open_passes: list[list[int]] = []
    for letter in order:
        if letter == "F":
            open_passes.append([step.forward("aten::mm"), step.forward("aten::relu")])
        else:
            product, activation = open_passes.pop(0)
            step.plain("aten::ones_like")
            step.backward("ReluBackward0", activation)
            step.backward("MmBackward0", product)
    return step


def test_gradient_accumulation_is_told_by_numbers() -> None:
    found = phases(accumulation(Step(), "FBFB"))
    assert [m for phase, m in found if phase == "BACKWARD"] == [0, 0, 1, 1]
    assert [m for phase, m in found if phase == "FORWARD" and m == 1] == [1] * 3  # two operators and ones_like


def test_passes_may_overlap_as_in_1f1b() -> None:
    found = phases(accumulation(Step(), "FFBFBB"))
    assert [m for phase, m in found if phase == "BACKWARD"] == [0, 0, 1, 1, 2, 2, 2]  # ones_like before the last one


def test_runs_that_follow_each_other_are_told_apart_after_one_with_higher_numbers() -> None:
    """Interleaved schedules go back through the newest chunk first, then through the older ones at once."""
    step = Step()
    passes = [[step.forward("aten::mm"), step.forward("aten::relu")] for _ in range(3)]
    for number in (2, 0, 1):
        if number != 1:
            step.plain("aten::ones_like")
        step.backward("ReluBackward0", passes[number][1])
        step.backward("MmBackward0", passes[number][0])
    found = [microbatch for phase, microbatch in phases(step) if phase == "BACKWARD"]
    assert len(set(found)) == 3


@pytest.mark.parametrize("lane", [AUTOGRAD, HOST])
def test_the_engine_may_have_a_thread_of_its_own(lane: int) -> None:
    step = Step()
    number = step.forward("aten::mm")
    step.backward("MmBackward0", number, lane=lane)
    step.backward("torch::autograd::AccumulateGrad", lane=lane)
    assert [phase for phase, _ in phases(step)] == ["FORWARD", "BACKWARD", "BACKWARD"]


def test_the_function_inside_of_the_engine_s_range_may_bear_the_number() -> None:
    """torch_npu numbers only that one."""
    step = accumulation(Step(), "FFBB")
    rows = [replace(row, sequence=-1) if "evaluate_function" in row.name else row for row in step.rows]
    assert phases(Step(rows)) == phases(step)


def test_one_pass_of_a_whole_step_contradicts_several_micro_batches() -> None:
    """The engine ran it, and an update followed; without one it may be a window of a step."""
    step = accumulation(Step(), "FB")
    assert phases(step, microbatches=4)
    step.plain("aten::add_")
    with pytest.raises(LayoutError, match="4 micro-batches are stated, but rank 0 runs 1 forward and 1 backward"):
        phases(step, microbatches=4)


def test_what_follows_the_last_backward_pass_is_the_optimizer() -> None:
    step = accumulation(Step(), "FB")
    step.plain("aten::add_")
    assert phases(step)[-1][0] == "OPTIMIZER"


def test_work_that_prepares_a_pass_belongs_to_it() -> None:
    step = Step()
    step.plain("aten::copy_")
    assert phases(accumulation(step, "FB"))[0][0] == "FORWARD"


def test_a_range_says_more_than_the_engine() -> None:
    step = accumulation(Step(), "FB")
    rows = [*step.rows, span("## optimizer ##", HOST, 0, 20)]
    assert phases(Step(rows))[0][0] == "OPTIMIZER"


NAMES: tuple[tuple[str, Phase], ...] = (
    ("Optimizer.step#AdamW.step", Phase.OPTIMIZER),
    ("aten::_fused_adam_", Phase.OPTIMIZER),
    ("aten::_foreach_addcdiv_", Phase.OPTIMIZER),
    ("aten::_amp_foreach_non_finite_check_and_unscale_", Phase.OPTIMIZER),
    ("torch.distributed.ddp.reducer::copy_bucket_to_grad", Phase.SYNC),
    ("npu::npu_apply_adam_w", Phase.OPTIMIZER),
    ("npu::npu_fused_adamw", Phase.OPTIMIZER),
    ("aten::addmm", Phase.NONE),
)


@pytest.mark.parametrize(("name", "phase"), NAMES)
def test_operators_that_name_their_phase(name: str, phase: Phase) -> None:
    assert phase_of(name) is phase
