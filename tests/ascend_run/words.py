"""Names: what CANN and torch_npu call the kernels and operators of a recording, and MindSpeed its groups.

``aclnnX_Y_Z`` is CANN's name of a kernel: the host's call, the operator below it, and the kernel's type.
"""

from __future__ import annotations

from typing import NamedTuple


class Kernel(NamedTuple):
    """One kind of task: its name on the device, its type, the core that runs it, and what the host calls it."""

    name: str
    type: str
    core: str
    call: str  # the range that torch_npu draws around the launch; the queue's entry has the same name
    operator: str = ""  # c10d's, of a collective

    @property
    def api(self) -> str:
        """The call of CANN's that asks for it."""
        return {"record_event": "aclrtRecordEvent", "wait_event": "aclrtStreamWaitEvent"}.get(self.call, self.call)


def _kernel(call: str, kind: str, core: str = "AI_VECTOR_CORE", part: str = "") -> Kernel:
    return Kernel(f"aclnn{call}_{part or kind}_{kind}", kind, core, f"aclnn{call}")


_MATMUL = _kernel("Matmul", "MatMulV3", "AI_CORE", "MatMulCommon")
_GROUPED = _kernel("GroupedMatmulV4", "GroupedMatmul", "MIX_AIC")
_DENSE = ("qkv_gemm", "proj_gemm", "fc1_gemm", "fc2_gemm", "head_gemm")
_PARTS = ("", "_dgrad", "_wgrad")
KERNELS = {
    "embedding": _kernel("Embedding", "GatherV2"),
    "embedding_bwd": _kernel("EmbeddingDenseBackward", "EmbeddingDenseGradV2"),
    "flash_attention": _kernel("FlashAttentionScore", "FlashAttentionScore", "MIX_AIC"),
    "flash_attention_bwd": _kernel("FlashAttentionScoreGrad", "FlashAttentionScoreGrad", "MIX_AIC"),
    "swiglu": _kernel("SwiGlu", "SwiGlu"),
    "swiglu_bwd": _kernel("SwiGluGrad", "SwiGluGrad"),
    "router_topk": _kernel("MoeGatingTopKSoftmax", "MoeGatingTopKSoftmax"),
    "router_bwd": _kernel("SoftmaxBackward", "SoftmaxGrad"),
    "permute": _kernel("MoeTokenPermute", "MoeTokenPermute"),
    "permute_bwd": _kernel("MoeTokenPermuteGrad", "MoeTokenUnpermute"),
    "unpermute": _kernel("MoeTokenUnpermute", "MoeTokenUnpermute"),
    "unpermute_bwd": _kernel("MoeTokenUnpermuteGrad", "MoeTokenUnpermuteGrad"),
    "cross_entropy": _kernel("CrossEntropyLoss", "CrossEntropyLoss"),
    "cross_entropy_bwd": _kernel("CrossEntropyLossGrad", "CrossEntropyLossGrad"),
    "adam": _kernel("ApplyAdamWV2", "ApplyAdamWV2"),
    **{f"{name}{part}": _MATMUL for name in _DENSE for part in _PARTS},
    **{f"grouped_gemm_{name}{part}": _GROUPED for name in ("fc1", "fc2") for part in _PARTS},
}
EVENT_CALLS = {
    "record": Kernel("EVENT_RECORD", "", "EVENT_RECORD_SQE", "record_event"),
    "wait": Kernel("EVENT_WAIT", "", "EVENT_WAIT_SQE", "wait_event"),
}
COLLECTIVES = {
    word: Kernel(f"hcom_{hccl}_", f"hcom_{hccl}_", "HCCL", f"Hccl{call}", f"c10d::{operator}")
    for word, hccl, call, operator in (
        ("allreduce", "allReduce", "Allreduce", "allreduce_"),
        ("_allgather_base", "allGather", "AllgatherBase", "_allgather_base_"),
        ("_reduce_scatter_base", "reduceScatter", "ReduceScatterBase", "_reduce_scatter_base_"),
        ("all_to_allv", "alltoallv", "AlltoAllV", "alltoall_base_"),
        ("send", "send", "Send", "send"),
        ("recv", "receive", "Recv", "recv_"),
    )
}
OPERATORS = {
    "_LayerNormLinear": "LinearWithGradAccumulationAndAsyncCommunication",
    "_Linear": "LinearWithGradAccumulationAndAsyncCommunication",
    "FlashAttnFunc": "npu::npu_fusion_attention",
    "SwiGLUFunction": "npu::npu_swiglu",
    "RouterGatingLinearFunction": "npu::npu_moe_gating_top_k_softmax",
    "_moe_permute_mask_map": "npu::npu_moe_token_permute",
    "_moe_unpermute_mask_map": "npu::npu_moe_token_unpermute",
    "_GroupedLinear": "GMMFunction",
    "emu::grouped_gemm": "npu::npu_grouped_matmul",
    "aten::_fused_adam_": "npu::npu_apply_adam_w",
}
GROUPS = {
    "default_pg": "default_group",
    "TENSOR_MODEL_PARALLEL_GROUP": "tp",
    "PIPELINE_MODEL_PARALLEL_GROUP": "pp",
    "MODEL_PARALLEL_GROUP": "mp",
    "DATA_PARALLEL_GROUP": "dp",
    "EXPERT_MODEL_PARALLEL_GROUP": "exp",
    "EXPERT_DATA_PARALLEL_GROUP": "dp_modulo_exp",
    "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP": "tp_ep_pp",
}
"""``group_name`` of a communicator: what Megatron hands to ``get_nccl_options``, and MindSpeed from there to HCCL."""

DTYPES = {"BFloat16": "BFP16", "Float": "FP32"}
ENGINE = "autograd::engine::evaluate_function: "


def operator_name(name: str) -> str:
    """What an operator or backward node of the recording is called on Ascend."""
    if name.startswith(ENGINE):
        return ENGINE + operator_name(name.removeprefix(ENGINE))
    stem = name.removesuffix("Backward")
    plain = OPERATORS.get(stem, stem)
    if stem == name or "::" not in plain:
        return plain + name[len(stem) :]
    return "".join(word.capitalize() for word in plain.rpartition("::")[2].split("_")) + "Backward0"
