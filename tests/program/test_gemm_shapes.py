"""Shapes of GEMM kernels from the operators that launched them."""

from __future__ import annotations

import numpy as np
import pytest

from replay.program.gemm_shapes import gemm_shapes
from replay.program.origins import origins
from replay.trace import EventKind
from tests.program.events import HOST, Row, graph_of, launched, trace_of


def shape_of(operators: list[Row], kernels: int = 1) -> tuple[float, float, float]:
    """FLOPs, rows and experts of the first of some kernels launched inside operators."""
    rows = operators + [row for i in range(kernels) for row in launched("gemm", HOST, 40 + i, 50 + i, 10, i + 1)]
    trace = trace_of(rows)
    graph = graph_of(trace)
    shapes = gemm_shapes(graph, trace, origins(graph, trace), np.ones(len(graph), np.bool_))
    return float(shapes.flops[0]), float(shapes.rows[0]), float(shapes.experts[0])


def operator(name: str, dims: str, start: int = 0, end: int = 100) -> Row:
    return Row(EventKind.CPU_OP, name, HOST, start, end - start, shape=dims)


@pytest.mark.parametrize(
    ("name", "dims", "expected"),
    [
        ("aten::mm", "[[8,3],[3,5]]", (2 * 8 * 3 * 5, 8, 1)),
        ("aten::mm", "8,3;3,5;;", (2 * 8 * 3 * 5, 8, 1)),  # torch_npu
        ("aten::mm", "128", (0, 0, 0)),
        ("aten::addmm", "[[5],[8,3],[3,5],[],[]]", (2 * 8 * 3 * 5, 8, 1)),
        ("aten::linear", "[[2,4,3],[5,3],[5]]", (2 * 8 * 3 * 5, 8, 1)),  # weight (n, k)
        ("grouped_gemm", "[[8,3],[4,3,5]]", (2 * 8 * 3 * 5, 8, 4)),
        ("grouped_gemm", "[[3,8],[8,5],[4,3,5]]", (2 * 8 * 3 * 5, 8, 4)),  # weight gradients: rows are the inner size
    ],
)
def test_two_matrices(name: str, dims: str, expected: tuple[float, float, float]) -> None:
    assert shape_of([operator(name, dims)]) == expected


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("aten::mul", "[[8,3],[3,5]]"),  # not a GEMM
        ("aten::mm", "[[8,3],[4,5]]"),  # sizes do not meet
        ("aten::mm", "[[8,3]"),  # not JSON
        ("aten::mm", "[[8,3],[]]"),
        ("aten::bmm", "[[2,8,3],[2,3,5]]"),  # batched
    ],
)
def test_what_tells_no_shape(name: str, dims: str) -> None:
    assert shape_of([operator(name, dims)]) == (0, 0, 0)


def test_the_innermost_operator_counts() -> None:
    outer, inner = operator("aten::linear", "[[1,3],[5,3]]"), operator("aten::mm", "[[8,3],[3,5]]", 30, 60)
    assert shape_of([outer, inner])[1] == 8


def test_an_operator_that_is_over_does_not_count() -> None:
    outer, before = operator("aten::linear", "[[1,3],[5,3]]"), operator("aten::mm", "[[8,3],[3,5]]", 10, 20)
    assert shape_of([outer, before])[1] == 1


def test_two_kernels_of_one_operator_share_no_shape() -> None:
    assert shape_of([operator("aten::mm", "[[8,3],[3,5]]")], kernels=2) == (0, 0, 0)


@pytest.mark.parametrize(("dims", "expected"), [("[[8,3],[4,3,5]]", False), ("[[3,8],[8,5],[4,3,5]]", True)])
def test_sizes_tell_gradients_of_experts_weights(dims: str, expected: bool) -> None:
    """Names of kernels need not."""
    trace = trace_of([operator("grouped_gemm", dims), *launched("gemm", HOST, 40, 50, 10, 1)])
    graph = graph_of(trace)
    shapes = gemm_shapes(graph, trace, origins(graph, trace), np.ones(len(graph), np.bool_))
    assert bool(shapes.weight_gradient[0]) is expected
