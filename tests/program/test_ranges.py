"""What a range's name says."""

from __future__ import annotations

import pytest

from replay.program.ranges import NOTHING, RangeMeaning, read_range
from replay.program.types import Phase, Role


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("attn(F)", RangeMeaning(Phase.FORWARD, Role.ATTENTION)),
        ("dispatch(B)", RangeMeaning(Phase.BACKWARD, Role.DISPATCH)),
        ("mlp(W)", RangeMeaning(Phase.WEIGHT, Role.MLP)),
        ("combine(F)", RangeMeaning(Phase.FORWARD, Role.COMBINE)),
        ("forward microbatch=3 chunk=1", RangeMeaning(Phase.FORWARD, microbatch=3, chunk=1)),
        ("backward", RangeMeaning(Phase.BACKWARD)),
        ("## forward ##", RangeMeaning(Phase.FORWARD)),
        ("forward-compute", RangeMeaning(Phase.FORWARD)),
        ("backward-send", RangeMeaning(Phase.BACKWARD, Role.P2P)),
        ("Optimizer.step#Adam.step", RangeMeaning(Phase.OPTIMIZER, Role.OPTIMIZER)),
        ("params-all-gather", RangeMeaning(Phase.SYNC, Role.GRAD_SYNC)),
        ("nn.Module: SelfAttention_3", RangeMeaning(role=Role.ATTENTION)),
        ("nn.Module: Qwen2Attention_11", RangeMeaning(role=Role.ATTENTION)),
        ("nn.Module: TEGroupedMLP_0", RangeMeaning(role=Role.EXPERTS)),
        ("nn.Module: SequentialMLP_0", RangeMeaning(role=Role.EXPERTS)),
        ("nn.Module: Qwen2MLP_4", RangeMeaning(role=Role.MLP)),
        ("nn.Module: VocabParallelEmbedding_0", RangeMeaning(role=Role.EMBEDDING)),
        ("decoder.layers.3.mlp.experts", RangeMeaning(role=Role.EXPERTS, layer=3)),
        ("attention(F) layer=2", RangeMeaning(Phase.FORWARD, Role.ATTENTION, layer=2)),
    ],
)
def test_known_namings(name: str, meaning: RangeMeaning) -> None:
    assert read_range(name) == meaning


@pytest.mark.parametrize(
    "name", ["1F1B", "ProfilerStep#1", "aten::linear", "f", "nccl:all_to_all", "nn.Module: Linear_3", ""]
)
def test_other_names_say_nothing(name: str) -> None:
    assert read_range(name) == NOTHING


def test_an_inner_range_adds_to_its_outer_one() -> None:
    inner = RangeMeaning(role=Role.EXPERTS, layer=4)
    assert inner.inside(read_range("forward mb=2")) == RangeMeaning(Phase.FORWARD, Role.EXPERTS, 2, layer=4)
