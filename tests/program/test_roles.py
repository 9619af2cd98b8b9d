"""Roles that names tell where ranges leave room."""

from __future__ import annotations

import pytest

from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.program.types import Role
from tests.program.events import HOST, graph_of, launched, span, trace_of


def role_of(kernel: str, where: str) -> Role:
    trace = trace_of([span(where, HOST, 0, 10), *launched(kernel, HOST, 5, 6, 2, 1)])
    return Role(int(label(graph_of(trace), trace, Layout(), ModelSpec()).role[0]))


@pytest.mark.parametrize(
    ("kernel", "role"),
    [
        ("cutlass::device_kernel<dpsk::grouped_gemm::cuda::m_grouped_fp8_ptp128c::GemmKernel>", Role.EXPERTS),
        ("cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>", Role.MLP),  # only its namespace
        ("cutlass::gemm::GroupProblemShape", Role.EXPERTS),
        ("grouped_topk_kernel", Role.ROUTER),
        ("aclnnGroupedMatmulV4_GroupedMatmul_GroupedMatmul", Role.EXPERTS),
        ("aclnnMoeGatingTopKSoftmax_MoeGatingTopKSoftmax_MoeGatingTopKSoftmax", Role.ROUTER),
        ("aclnnMoeInitRoutingV2_MoeInitRoutingV2_MoeInitRoutingV2", Role.DISPATCH),
        ("aclnnMoeTokenPermuteGrad_MoeTokenUnpermute_MoeTokenUnpermute", Role.DISPATCH),  # its work, reversed
        ("aclnnMoeFinalizeRoutingV2_MoeFinalizeRoutingV2_MoeFinalizeRoutingV2", Role.COMBINE),
        ("swiglu", Role.MLP),
    ],
)
def test_the_kernel_sharpens_a_feed_forward_range(kernel: str, role: Role) -> None:
    assert role_of(kernel, "mlp(F)") == role


def test_a_stated_role_stands() -> None:
    assert role_of("m_grouped_gemm", "attn(F)") == Role.ATTENTION
