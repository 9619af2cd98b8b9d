"""Sizes of ops by the kernel table beside a trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.program.gemm_shapes import gemm_shapes
from replay.program.origins import origins
from replay.program.table_products import TableProducts, table_products
from replay.trace import EventKind, KernelDetails, Trace
from tests.program.events import HOST, Row, graph_of, launched, trace_of


def listed(op_type: str, inputs: str, outputs: str) -> Trace:
    """A trace with one kernel inside of an operator (8, 3) x (3, 5), and a table that says this of the kernel."""
    operator = Row(EventKind.CPU_OP, "aten::mm", HOST, 0, 100, shape="[[8,3],[3,5]]")
    trace = trace_of([operator, *launched(op_type, HOST, 40, 50, 1000, 1)])
    tensors = inputs.count(";") + 1
    details = KernelDetails(
        np.flatnonzero(trace.is_device), (op_type,), ("AI_CORE",), (inputs,), (";".join(["DT_BF16"] * tensors),),
        (";".join(["ND"] * tensors),), (outputs,), ("DT_BF16",), ("ND",), np.zeros(1, np.int64), np.full(1, np.nan),
    )  # fmt: skip
    return replace(trace, details=details)


def products(trace: Trace) -> tuple[TableProducts, int]:
    """All products of a trace's graph, and the op of its kernel."""
    graph = graph_of(trace)
    [op] = np.flatnonzero(np.isin(graph.event, np.flatnonzero(trace.is_device)))
    return table_products(graph, trace), int(op)


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "expected"),  # FLOPs, rows, experts, n, k, weight gradient
    [
        ("MatMulV3", "32,64;64,16", "32,16", (2 * 32 * 64 * 16, 32, 1, 16, 64, 0)),
        ("BatchMatMulV2", "4,32,64;4,64,16", "4,32,16", (2 * 4 * 32 * 64 * 16, 128, 4, 16, 64, 0)),
        ("GroupedMatmul", "96,64;4,64,16;4", "96,16", (2 * 96 * 64 * 16, 96, 4, 16, 64, 0)),
        ("GroupedMatmul", "96,64;96,16;4", "4,64,16", (2 * 96 * 64 * 16, 96, 4, 16, 96, 1)),
    ],
)
def test_the_table_tells_shapes_before_the_operator(
    op_type: str, inputs: str, outputs: str, expected: tuple[float, ...]
) -> None:
    trace = listed(op_type, inputs, outputs)
    found, op = products(trace)
    assert found.known[op]
    assert tuple(found.shapes()[op].tolist()) == expected
    graph = graph_of(trace)
    shapes = gemm_shapes(graph, trace, origins(graph, trace), np.ones(len(graph), np.bool_))
    assert (shapes.flops[op], shapes.rows[op], shapes.experts[op], shapes.operator[op]) == (*expected[:3], -1)


def test_kernels_that_tell_no_product_keep_what_the_operator_says() -> None:
    trace = listed("MatMulV3", "N/A", "N/A")
    found, op = products(trace)
    graph = graph_of(trace)
    shapes = gemm_shapes(graph, trace, origins(graph, trace), np.ones(len(graph), np.bool_))
    assert not found.known.any()
    assert shapes.flops[op] == 2 * 8 * 3 * 5


def test_a_product_fused_with_a_collective_is_not_timed_as_one() -> None:
    found, op = products(listed("MatmulAllReduce", "32,64;64,16", "32,16"))
    assert not found.known[op]
    assert found.dtypes[int(found.dtype[op])] == "bf16"


def test_sizes_in_front_of_a_kernels_tensors_are_not_its_type() -> None:
    """The gradient of a convolution's input: its own sizes come first."""
    trace = listed("Conv2DBackpropInput", "4;288,16,16,8;32,32,13,13,8", "32,32,13,13,8")
    assert trace.details is not None
    details = replace(trace.details, input_dtypes=("INT32;FLOAT16;FLOAT16",))
    found, op = products(replace(trace, details=details))
    assert found.dtypes[int(found.dtype[op])] == "fp16"


def test_without_a_table_nothing_is_known() -> None:
    found, op = products(replace(listed("MatMulV3", "4,4;4,4", "4,4"), details=None))
    assert (bool(found.known[op]), int(found.dtype[op])) == (False, -1)
