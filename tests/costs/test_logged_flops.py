"""Which formula a logged TFLOP/s implies."""

from __future__ import annotations

import pytest

from replay.costs.logged_flops import GENERATIONS, Iteration, deepspeed, implied
from replay.model import ModelSpec
from tests.costs.test_training_flops import DEEPSEEK_V3, GPT3, LLAMA3_70B

GPT = Iteration(GPT3, 1536, "full")
LLAMA = Iteration(LLAMA3_70B, 256, "full")


def named(name: str, it: Iteration) -> float:
    """FLOP of an iteration by the formula of that name."""
    return next(generation for generation in GENERATIONS if generation.name == name).flop(it)


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("Megatron-LM core 0.12 and later, Bridge, NeMo 2", 6 * 74_870_423_552),
        ("Megatron-LM core 0.8 to 0.10", 6 * (74_870_423_552 + 80 * 67_108_864)),
        ("Megatron-LM core 0.5", 60 * 80 * 8192**2 * (1 + 8 / 320 + 1 / 5 + 128256 / (10 * 80 * 8192))),
        ("Megatron-LM 2021, Megatron-DeepSpeed to 2023", 96 * 80 * 8192**2 * (1 + 1 / 6 + 128256 / (16 * 80 * 8192))),
    ],
)
def test_each_formula_by_hand(name: str, per_token: float) -> None:
    """Llama 3 70B at 8192 tokens, where s = h."""
    assert named(name, LLAMA) == pytest.approx(per_token * 256 * 8192, rel=1e-9)


def test_deepspeed_rounds_the_key_value_share_down() -> None:
    """8 queries a key-value head: 2 // 8 = 0, so only q and o are counted; four forwards with recomputation."""
    forward = 80 * (2 * 8192**2 + 2 * 8192 * 8192 + 3 * 8192 * 28672) + 8192 * 128256
    assert deepspeed(LLAMA) == pytest.approx(2 * 4 * forward * 256 * 8192, rel=1e-12)


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda generation: generation.name)
@pytest.mark.parametrize("it", [GPT, LLAMA, Iteration(DEEPSEEK_V3, 64)], ids=["gpt", "llama", "deepseek"])
def test_every_formula_is_found_from_its_own_number(generation: object, it: Iteration) -> None:
    """The named one, or one that gives this number for this model."""
    found = implied(generation.flop(it) * 1.0004, it)  # type: ignore[attr-defined]
    assert found is not None
    assert generation in (found.generation, *found.same)
    assert found.ratio == pytest.approx(1.0004, abs=2e-4)


def test_a_published_log() -> None:
    """GPT-3 on 64 devices, Megatron-DeepSpeed: `elapsed ... 344656.1 ... TFLOPs: 153.38`; V/16 tells the formula."""
    found = implied(153.38e12 * 344.6561 * 64, Iteration(GPT3, 1536))
    assert found is not None
    assert found.generation.name == "Megatron-LM 2021, Megatron-DeepSpeed to 2023"
    assert found.ratio == pytest.approx(1, abs=1e-4)


def test_a_number_of_no_formula_is_not_explained() -> None:
    """6·N·tokens would leave attention out; half of a number is nobody's."""
    assert implied(0.5 * named("Megatron-LM core 0.12 and later, Bridge, NeMo 2", LLAMA), LLAMA) is None
    assert implied(1e15, Iteration(ModelSpec(layers=2), 1)) is None
