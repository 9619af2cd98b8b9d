"""FLOP of an iteration against hand arithmetic and published counts."""

from __future__ import annotations

import pytest

from replay.costs.training_flops import lacking, training_flops, utilisation, with_recomputation
from replay.model import ModelSpec

GPT3 = ModelSpec(layers=96, hidden=12288, ffn=49152, heads=96, seq=2048, vocab=51200, gated=False)
LLAMA3_70B = ModelSpec(
    layers=80, hidden=8192, ffn=28672, heads=64, kv_heads=8, head_dim=128, seq=8192, vocab=128256, gated=True
)
DEEPSEEK_V3 = ModelSpec(
    layers=61, dense_layers=3, hidden=7168, ffn=18432, moe_ffn=2048, heads=128, head_dim=128, rope_dim=64,
    value_dim=128, q_lora_rank=1536, kv_lora_rank=512, experts=256, topk=8, shared_experts=1, seq=4096,
    vocab=129280, gated=True,
)  # fmt: skip


def narayanan(batch: int, s: int, layers: int, h: int, v: int) -> float:
    """SC21, eq. 3: with activation recomputation."""
    return 96 * batch * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))


def test_dense_gpt_is_the_published_formula() -> None:
    """GPT-3 at batch 1536, every layer recomputed, the whole attention matrix: eq. 3 to the digit."""
    counted = with_recomputation(training_flops(GPT3, 1536, causal=False), "full")
    assert counted == pytest.approx(narayanan(1536, 2048, 96, 12288, 51200), rel=1e-12)


def test_dense_gpt_without_recomputation() -> None:
    """Three of the four passes of eq. 3: 72·B·s·l·h²·(1 + s/6h + V/12lh)."""
    formula = 72 * 1536 * 2048 * 96 * 12288**2 * (1 + 2048 / (6 * 12288) + 51200 / (12 * 96 * 12288))
    assert training_flops(GPT3, 1536, causal=False).total == pytest.approx(formula, rel=1e-12)


def test_causal_attention_is_half() -> None:
    """Half of 12·B·s²·l·h, everything else unchanged."""
    whole, half = training_flops(GPT3, 1, causal=False), training_flops(GPT3, 1)
    assert whole.total - half.total == pytest.approx(6 * 2048**2 * 96 * 12288)


def test_grouped_queries_and_swiglu() -> None:
    """Llama 3 70B, a token: q and o 8192², k and v 8192·1024, three matrices of 8192·28672, a head, 8192 keys."""
    layer = 2 * 67_108_864 + 16_777_216 + 704_643_072
    macs = 80 * layer + 1_050_673_152 + 80 * 67_108_864
    assert macs == 74_870_423_552
    assert training_flops(LLAMA3_70B, 256).total == pytest.approx(6 * macs * 256 * 8192, rel=1e-12)


def test_latent_attention_and_experts() -> None:
    """DeepSeek-V3, a token: MLA projections, 3 dense and 58 expert layers (8 routed, 1 shared), head, 4096 keys."""
    attention = 1536 * (7168 + 128 * 192) + 512 * (7168 + 128 * 256) + 7168 * 64 + 128 * 128 * 7168
    core = 4096 * 128 * (192 + 128) // 2
    macs = 61 * (attention + core) + 3 * 3 * 7168 * 18432 + 58 * 9 * 3 * 7168 * 2048 + 7168 * 129280
    assert macs == 41_635_217_408
    assert training_flops(DEEPSEEK_V3, 1).total / 4096 == pytest.approx(6 * macs, rel=1e-12)


def test_deepseek_v3_as_its_authors_count() -> None:
    """250 GFLOP a token at 4096 tokens (Insights into DeepSeek-V3, ISCA 2025, table 2)."""
    assert training_flops(DEEPSEEK_V3, 1).total / 4096 / 1e9 == pytest.approx(250, abs=0.5)


def test_a_prediction_layer_is_a_layer_a_projection_and_a_head() -> None:
    """One more expert layer with attention, 2h·h, h·V."""
    with_mtp = ModelSpec(**{**{f: getattr(DEEPSEEK_V3, f) for f in DEEPSEEK_V3.__slots__}, "mtp_layers": 1})
    more = 187_105_280 + 83_886_080 + 352_321_536 + 44_040_192 + 2 * 7168**2 + 926_679_040
    difference = training_flops(with_mtp, 1).total - training_flops(DEEPSEEK_V3, 1).total
    assert difference == pytest.approx(6 * 4096 * more)


def test_selective_recomputation_runs_the_core_again() -> None:
    """A third of the core's three passes."""
    flops = training_flops(GPT3, 1)
    assert with_recomputation(flops, "selective") - flops.total == pytest.approx(flops.attention_core / 3)
    assert with_recomputation(flops, None) == flops.total


def test_what_is_lacking_is_named() -> None:
    """Sizes by name; a dense model needs no expert sizes."""
    assert lacking(GPT3) == lacking(DEEPSEEK_V3) == ()
    assert lacking(ModelSpec(layers=2, hidden=8, heads=2, seq=4, gated=True)) == ("vocab", "ffn")
    assert "topk" in lacking(ModelSpec(layers=2, hidden=8, heads=2, seq=4, vocab=9, gated=True, experts=4, ffn=8))


def test_utilisation() -> None:
    """10 TFLOP in 2 s on 4 devices of 5 TFLOP/s: a quarter."""
    assert utilisation(1e13, 2.0, 4, 5e12) == pytest.approx(0.25)
