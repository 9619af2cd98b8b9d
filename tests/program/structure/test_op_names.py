"""Roles that operators name, as their frameworks call them."""

from __future__ import annotations

import pytest

from replay.program.structure.op_names import role_of
from replay.program.types import Role

NAMES = (
    ("aten::scaled_dot_product_attention", Role.ATTENTION),
    ("autograd::engine::evaluate_function: ScaledDotProductEfficientAttentionBackward0", Role.ATTENTION),
    ("FlashAttnFuncBackward", Role.ATTENTION),
    ("FusedAttnFunc", Role.ATTENTION),
    ("PermuteMoE_topKBackward", Role.DISPATCH),
    ("flash_attn::_flash_attn_forward", Role.ATTENTION),
    ("aten::native_layer_norm_backward", Role.NORM),
    ("FusedLayerNormAffineFunctionBackward", Role.NORM),
    ("aten::embedding_dense_backward", Role.EMBEDDING),
    ("aten::cross_entropy_loss", Role.HEAD),
    ("_VocabParallelCrossEntropyBackward", Role.HEAD),
    ("_GroupedLinear", Role.EXPERTS),
    ("_LayerNormMLPBackward", Role.MLP),
    ("FusedDispatch", Role.DISPATCH),
    ("FusedCombineBackward", Role.COMBINE),
    ("torch::distributed::reducer::mul_out", Role.GRAD_SYNC),
    ("npu::npu_fusion_attention", Role.ATTENTION),
    ("autograd::engine::evaluate_function: NpuFusionAttentionBackward0", Role.ATTENTION),
    ("npu::npu_rotary_mul", Role.ATTENTION),
    ("NpuRmsNormBackward0", Role.NORM),
    ("npu::npu_add_rms_norm", Role.NORM),
    ("NpuSwigluBackward0", Role.MLP),
    ("npu::npu_moe_gating_top_k_softmax", Role.ROUTER),
    ("NpuMoeTokenPermuteBackward0", Role.DISPATCH),
    ("npu::npu_moe_init_routing_v2", Role.DISPATCH),
    ("NpuMoeTokenUnpermuteBackward0", Role.COMBINE),
    ("npu::npu_grouped_matmul", Role.EXPERTS),
    ("GMMFunctionBackward", Role.EXPERTS),
    ("npu::npu_format_cast", Role.NONE),
    ("aten::mm", Role.NONE),
    ("AddmmBackward0", Role.NONE),
    ("aten::add_", Role.NONE),
)


@pytest.mark.parametrize(("name", "role"), NAMES)
def test_roles_of_operators(name: str, role: Role) -> None:
    assert role_of(name) is role
