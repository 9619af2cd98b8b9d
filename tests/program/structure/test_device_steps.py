"""Steps of device work alone: passes, micro-batches, layers, roles and the tail, read off hand-made launch orders."""

import pytest

from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.structure._directions import BACKWARD, FORWARD, UNKNOWN
from replay.program.structure.kernel_phases import Names
from replay.program.types import Phase, Role
from replay.trace import CollectiveKind
from tests.program.structure.launched import Found, Work, find, kernels, transfer

F, B, SYNC, UPDATING = Phase.FORWARD, Phase.BACKWARD, Phase.SYNC, Phase.OPTIMIZER
SEND, RECV = transfer(CollectiveKind.SEND), transfer(CollectiveKind.RECV)

LAYER = kernels("norm qkv_gemm flash_fwd proj_gemm norm fc_gemm")
LAYER_BACK = kernels("fc_gemm_dgrad norm_bwd proj_gemm_dgrad flash_bwd qkv_gemm_dgrad norm_bwd")
EMBEDDING, EMBEDDING_BACK = kernels("lookup"), kernels("lookup_backward")
HEAD, HEAD_BACK = kernels("norm logits_gemm loss"), kernels("loss_bwd logits_gemm_dgrad norm_bwd")
UPDATE = kernels("multi_tensor_adam multi_tensor_adam")
SUM = [Work("ncclAllReduce", CollectiveKind.ALL_REDUCE, "DATA_PARALLEL_GROUP")]


def one_rank(microbatches: int, layers: int) -> list[Work]:
    """Gradient accumulation without a pipeline."""
    forward = EMBEDDING + LAYER * layers + HEAD
    backward = HEAD_BACK + LAYER_BACK * layers + EMBEDDING_BACK
    return (forward + backward) * microbatches + SUM + UPDATE


def two_stages() -> list[list[Work]]:
    """1F1B over two stages of two layers, two micro-batches (Narayanan et al.): F F B B and F B F B."""
    first_f, first_b = EMBEDDING + LAYER * 2 + SEND, RECV + LAYER_BACK * 2 + EMBEDDING_BACK
    last = RECV + LAYER * 2 + HEAD + HEAD_BACK + LAYER_BACK * 2 + SEND
    return [first_f * 2 + first_b * 2 + UPDATE, last * 2 + UPDATE]


def lengths(found: Found, field: str, rank: int = 0) -> list[tuple[int, int]]:
    """Runs of one field as (value, length)."""
    runs: list[tuple[int, int]] = []
    for value in found.column(field, rank):
        runs[-1:] = [(value, runs[-1][1] + 1)] if runs and runs[-1][0] == value else [*runs[-1:], (value, 1)]
    return runs


def test_phases_follow_each_other() -> None:
    found = find([one_rank(2, 3)], Layout(dp=2, world_size=2))
    whole = 1 + 3 * 6 + 3
    assert lengths(found, "phase") == [(F, whole), (B, whole)] * 2 + [(SYNC, 1), (UPDATING, 2)]


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("flash_fwd_kernel", FORWARD),
        ("aclnnFlashAttentionScoreGrad_FlashAttentionScoreGrad_FlashAttentionScoreGrad", BACKWARD),
        ("aclnnFlashAttentionScore_FlashAttentionScore_FlashAttentionScore", FORWARD),  # as above without the word
        ("aclnnThresholdBackward_ReluGradV2AiCore_ReluGradV2", BACKWARD),
        ("Conv2DBackpropFilter6", BACKWARD),
        ("MaxPoolGradWithArgmaxV1", BACKWARD),
        ("aclnnMatmul_MatMulCommon_MatMulV3", UNKNOWN),
        ("multi_tensor_GradScale", UNKNOWN),
    ],
)
def test_directions_by_name(name: str, direction: int) -> None:
    """CANN ends its gradients in Grad, convolutions' in Backprop."""
    backward = "aclnnFlashAttentionScoreGrad_FlashAttentionScoreGrad_FlashAttentionScoreGrad"
    assert Names.of((name, backward)).direction[0] == direction


def test_micro_batches_are_counted() -> None:
    found = find([one_rank(3, 2)], Layout(dp=2, world_size=2))
    assert lengths(found, "microbatch") == [(0, 32), (1, 32), (2, 32), (-1, 3)]


def test_layers_count_down_in_backward() -> None:
    found = find([one_rank(1, 3)], Layout(dp=2, world_size=2))
    outside = (-1, 6)  # head and its backward
    up, down = [(0, 6), (1, 6), (2, 6)], [(2, 6), (1, 6), (0, 6)]
    assert lengths(found, "layer") == [(-1, 1), *up, outside, *down, (-1, 4)]


def test_work_around_layers_is_embedding_and_head() -> None:
    found = find([one_rank(1, 2)], Layout(dp=2, world_size=2))
    roles = found.column("role")
    assert roles[0] == Role.EMBEDDING
    assert roles[13:19] == [Role.HEAD] * 6


def test_attention_ends_with_its_projection() -> None:
    found = find([one_rank(1, 2)], Layout(dp=2, world_size=2))
    assert found.column("role")[1:7] == [Role.ATTENTION] * 4 + [Role.MLP] * 2


def test_transfers_cut_passes_and_belong_to_them() -> None:
    found = find(two_stages(), Layout(pp=2, world_size=2))
    assert lengths(found, "microbatch") == [(0, 14), (1, 14), (0, 14), (1, 14), (-1, 2)]
    assert lengths(found, "microbatch", 1) == [(0, 32), (1, 32), (-1, 2)]
    assert found.column("role")[13] == Role.P2P


def test_layers_count_over_stages() -> None:
    found = find(two_stages(), Layout(pp=2, world_size=2))
    assert set(found.column("layer", 0)) == {-1, 0, 1}
    assert set(found.column("layer", 1)) == {-1, 2, 3}


def test_recomputed_layers_are_backward() -> None:
    forward = EMBEDDING + LAYER * 3 + HEAD
    backward = HEAD_BACK + (LAYER + LAYER_BACK) * 3 + EMBEDDING_BACK
    found = find([(forward + backward) * 2 + UPDATE], Layout())
    assert lengths(found, "phase") == [(F, 22), (B, 40)] * 2 + [(UPDATING, 2)]
    assert lengths(found, "layer")[5:8] == [(2, 12), (1, 12), (0, 12)]


def test_dense_and_expert_layers_alternate() -> None:
    exchange = [Work("ncclAllToAll", CollectiveKind.ALL_TO_ALL, "EXPERT_MODEL_PARALLEL_GROUP")]
    experts = LAYER[:4] + kernels("norm gate") + exchange + kernels("grouped_gemm") + exchange
    forward = EMBEDDING + (LAYER + experts) * 2 + HEAD
    found = find([forward + HEAD_BACK + LAYER_BACK * 4 + UPDATE], Layout())
    assert lengths(found, "layer")[1:5] == [(0, 6), (1, 9), (2, 6), (3, 9)]
    expected = [Role.ROUTER] * 2 + [Role.DISPATCH, Role.EXPERTS, Role.COMBINE]
    assert found.column("role")[11:16] == expected


def test_sums_beside_backward_belong_to_it() -> None:
    backward = HEAD_BACK + LAYER_BACK + SUM + LAYER_BACK + EMBEDDING_BACK + SUM
    found = find([EMBEDDING + LAYER * 2 + HEAD + backward + UPDATE], Layout(dp=2, world_size=2))
    assert lengths(found, "phase") == [(F, 16), (B, 18), (UPDATING, 2)]
    assert found.column("role").count(Role.GRAD_SYNC) == 2


def test_an_unnamed_group_that_forward_sums_over_is_no_gradient_sum() -> None:
    everywhere = [Work("ncclAllReduce", CollectiveKind.ALL_REDUCE)]
    step = EMBEDDING + (LAYER + everywhere) * 2 + HEAD + HEAD_BACK + (LAYER_BACK + everywhere) * 2 + EMBEDDING_BACK
    found = find([step + UPDATE], Layout(dp=2, world_size=2))
    assert Role.GRAD_SYNC not in found.column("role")


def test_stated_micro_batches_must_agree() -> None:
    with pytest.raises(LayoutError, match=r"5 micro-batches are stated, but rank 0 runs 3 forward"):
        find([one_rank(3, 2)], Layout(dp=2, world_size=2, microbatches=5))


def test_stated_layers_must_agree() -> None:
    with pytest.raises(LayoutError, match=r"the model has 7 layers, but 3 were found"):
        find([one_rank(1, 3)], Layout(dp=2, world_size=2), ModelSpec(layers=7))


def test_another_number_of_chunks_is_named() -> None:
    stages = two_stages()
    found = find(stages, Layout(pp=2, vpp=2, world_size=2))
    assert set(found.column("microbatch")) == {-1}
    assert "give --from vpp=1" in " ".join(found.sentences)


def test_passes_that_overlap_are_not_numbered() -> None:
    """Forward and backward layers of several micro-batches in turn, as DualPipe runs them: no passes are claimed."""
    mixed = (kernels("a_fwd b c d e f") + kernels("x_bwd y") + kernels("g_fwd") + kernels("x_bwd y y y y")) * 6
    found = find([mixed], Layout())
    assert set(found.column("microbatch")) == {-1}


def test_nothing_is_said_of_work_without_a_backward_pass() -> None:
    found = find([kernels("a b c a b c a b c")], Layout())
    assert found.sentences == ()
