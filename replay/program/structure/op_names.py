"""Roles from the names of framework operators: one line of the table a family.

An operator that is an autograd function is called as its class, its node as the class and ``Backward``. The innermost
operator with a meaning decides; what runs inside backward nodes is read alike, since the node carries the name.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import Evidence, Finding
from replay.program.types import Role
from replay.trace import EventKind

ORDER = 30
ROLE = FIELDS.index("role")

FAMILIES: tuple[tuple[str, Role], ...] = (
    # torch (aten/src/ATen/native/native_functions.yaml, torch/nn/functional.py)
    (
        r"aten::(?:scaled_dot_product|_scaled_dot_product|_flash_attention|_efficient_attention|_fused_sdp)\w*",
        Role.ATTENTION,
    ),
    (r"ScaledDotProduct\w+", Role.ATTENTION),
    (r"aten::_native_multi_head_attention|flex_attention\w*", Role.ATTENTION),
    (
        r"aten::(?:native_)?(?:layer|group|batch|instance)_norm\w*|aten::\w*rms_norm\w*|aten::cudnn_batch_norm\w*",
        Role.NORM,
    ),
    (r"(?:Native)?(?:LayerNorm|GroupNorm|BatchNorm|CudnnBatchNorm)\w*|\w*RMSNorm\w*|\w*RmsNorm\w*", Role.NORM),
    (r"aten::embedding(?:_bag|_dense_backward)?\w*|aten::_embedding_bag\w*|Embedding(?:Bag)?", Role.EMBEDDING),
    (r"aten::(?:cross_entropy|nll|mse|l1|smooth_l1|huber|kl_div|ctc|binary_cross_entropy)\w*", Role.HEAD),
    (r"(?:NllLoss|MseLoss|CrossEntropy|BinaryCrossEntropy|KlDiv|SmoothL1Loss|L1Loss)\w*", Role.HEAD),
    # Megatron-LM (core/tensor_parallel, core/transformer/moe, core/fusions), Transformer Engine (pytorch), grouped_gemm
    (r"_VocabParallelCrossEntropy|VocabParallelCrossEntropy\w*|CrossEntropyFunction", Role.HEAD),
    (
        r"FusedAttnFunc\w*|AttnFuncWithCP\w*|UnfusedDotProductAttention\w*|FusedRoPEFunc|ApplyRotaryEmb\w*",
        Role.ATTENTION,
    ),
    (r"Scaled(?:UpperTriang)?(?:Masked|Aligned)?\w*Softmax", Role.ATTENTION),
    (r"_LayerNormMLP|(?:Bias)?(?:Weighted)?(?:SwiGLU|GeGLU|GeLU|QuickGeGLU)\w*Function", Role.MLP),
    (r"_GroupedLinear|GroupedGemm\w*|grouped_gemm\w*|aten::_grouped_mm|aten::_scaled_grouped_mm", Role.EXPERTS),
    (r"FusedDispatch|_?moe_permute\w*|PermuteMoE_topK|deep_ep\w*dispatch\w*", Role.DISPATCH),
    (r"FusedCombine|_?moe_unpermute\w*|UnpermuteMoE_topK|deep_ep\w*combine\w*", Role.COMBINE),
    (
        r"FusedTopkScoreFunction|FusedComputeScoresForMoEAuxLoss|FusedAuxLoss|MoEAuxLossAutoScaler",
        Role.ROUTER,
    ),
    # Apex, Liger, FlashAttention, xFormers, FBGEMM, vLLM
    (r"(?:Fused|Mixed|Fast)\w*LayerNorm\w*", Role.NORM),
    (r"Liger(?:Fused)?(?:Linear)?CrossEntropy\w*|SoftmaxCrossEntropyLoss", Role.HEAD),
    (
        r"Liger(?:RopeFunction|MultiTokenAttention\w*)|FlashAttn\w*Func|_?flash_attn\w*|_fMHA|memory_efficient_attention\w*",
        Role.ATTENTION,
    ),
    (r"Liger(?:SiLUMul|GELUMul)Function|_?silu_and_mul|_?gelu_and_mul", Role.MLP),
    (r"unified_attention\w*|paged_attention\w*|varlen_fwd|reshape_and_cache\w*|rotary_embedding", Role.ATTENTION),
    (r"split_embedding_\w*|SplitLookupFunction\w*|int_nbit_split_embedding\w*", Role.EMBEDDING),
    (r"topk_softmax|moe_align_block_size|grouped_topk|fused_topk", Role.ROUTER),
    (r"fused_moe\w*|fused_experts\w*|outplace_fused_experts|inplace_fused_experts", Role.EXPERTS),
    # torch_npu (op-plugin), MindSpeed; nodes of its operators are their names in camel case
    (
        r"_?npu_(?:fusion|multi_head|fused_infer|prompt|incre|paged|block_sparse|nsa|flash|sparse_flash)\w*",
        Role.ATTENTION,
    ),
    (r"_?npu_(?:fused_attention|ring_)\w*|_?npu_(?:rotary|apply_rotary|interleave_rope|mla_)\w*", Role.ATTENTION),
    (
        r"npu_scaled_masked_softmax\w*|npu_lightning_indexer\w*|_?npu_reshape_and_cache\w*|AttentionWithCp",
        Role.ATTENTION,
    ),
    (r"npu_(?:add_|gemma_|deep_|group_)?(?:rms_norm|layer_norm|norm)\w*", Role.NORM),
    (r"npu_(?:clipped_)?(?:swiglu|geglu|fast_gelu|gelu|silu|ffn)\w*", Role.MLP),
    (r"_?npu_moe_gating\w*|_?npu_group_topk\w*|npu_moe_compute_expert_tokens", Role.ROUTER),
    (r"npu_moe_(?:token_permute|init_routing|distribute_dispatch|re_routing)\w*", Role.DISPATCH),
    (r"npu_moe_(?:token_unpermute|finalize_routing|distribute_combine)\w*", Role.COMBINE),
    (r"npu_grouped_matmul\w*|npu_gmm\w*|npu_groupmatmul\w*|npu_alltoallv_gmm|G[Mm][Mm]\w*|GroupedMlp\w*", Role.EXPERTS),
    (r"npu_(?:softmax_)?cross_entropy\w*", Role.HEAD),
    # DistributedDataParallel
    (r"torch(?:::|\.)distributed(?:::|\.)(?:ddp\.)?reducer::\w+", Role.GRAD_SYNC),
)
"""Whole names of operators without their namespace unless the pattern gives it, case-sensitive, first match."""

_NODE = re.compile(r"^autograd::engine::evaluate_function: ")
_SUFFIX = re.compile(r"(?:Backward)?\d*$")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
_NAMESPACE = re.compile(r"^[\w.]+::(?:_C::)?")


def find(evidence: Evidence) -> Finding:
    """Role of every op inside an operator that the table knows."""
    finding = evidence.nothing()
    trace, calls = evidence.trace, evidence.calls
    of_name = np.array([role_of(name) for name in trace.names], np.int64)[calls.names(trace)]
    of_name[trace.kind[calls.event] != EventKind.CPU_OP] = Role.NONE
    innermost = calls.at_ops(calls.innermost(of_name != Role.NONE))
    told = innermost >= 0
    finding.states[told, ROLE] = of_name[innermost[told]]
    names = sorted({trace.names[code] for code in calls.names(trace)[innermost[told]].tolist()})
    sentence = f"roles from {len(names)} operator names ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
    return Finding(finding.states, finding.passes, (sentence,) if names else ())


@cache
def role_of(name: str) -> Role:
    """Role of an operator or backward node by its name, NONE where the table does not know it."""
    name = _SUFFIX.sub("", _NODE.sub("", name))
    plain = _NAMESPACE.sub("", name)
    snake = _HUMP.sub("_", plain).lower() if plain.startswith("Npu") else plain
    for candidate in dict.fromkeys((name, plain, snake)):
        for pattern, role in _COMPILED:
            if pattern.fullmatch(candidate):
                return role
    return Role.NONE


_COMPILED = tuple((re.compile(pattern), role) for pattern, role in FAMILIES)
