"""What a kernel is called by its table, and which kernels are the same."""

from __future__ import annotations

from dataclasses import replace

from replay.graph.types import KernelType
from replay.program.kernel_words import kernel_codes, kernel_words
from tests.program.events import HOST, graph_of, launched, trace_of

TYPES = {"Conv2D1": "Conv2D", "Conv2D2": "Conv2D", "aclnnAddmm_CastAiCore_Cast": "Cast", "trans_Cast_3": "Cast"}


def test_running_numbers_make_no_other_kernel() -> None:
    """A cast within a matrix product stays apart from one that the framework asked for."""
    names = [*TYPES, "gemm_64x64_1", "gemm_64x64_2"]
    rows = [row for k, name in enumerate(names) for row in launched(name, HOST, 10 * k, 10 * k + 1, 5, k + 1)]
    graph = replace(graph_of(trace_of(rows)), kernels={name: KernelType(kind, "") for name, kind in TYPES.items()})
    codes = kernel_codes(graph).tolist()
    assert codes[0] == codes[1]
    assert len(set(codes)) == len(names) - 1
    assert [kernel_words(graph)[code] for code in graph.name] == ["Conv2D", "Conv2D", "Cast", "Cast", *names[-2:]]
