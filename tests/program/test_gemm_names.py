"""Which names are matrix multiplications."""

from __future__ import annotations

import pytest

from replay.program.expert_ops import GEMM


@pytest.mark.parametrize("name", ["aten::addmm", "aten::mm", "aten::bmm", "aten::linear", "sm90_xmma_gemm_bf16"])
def test_products(name: str) -> None:
    assert GEMM.search(name)


@pytest.mark.parametrize("name", ["aten::layer_norm", "aten::linspace", "aten::add_", "ncclDevKernel_AllReduce"])
def test_other_work(name: str) -> None:
    assert not GEMM.search(name)
