"""What matrix kernels multiply, by hand: (m, n, k), batch and experts from the cells of a kernel table."""

from __future__ import annotations

import pytest

from parsers.ascend.matmul import Operands, Product, is_product, product_of


def read(op_type: str, inputs: str, outputs: str = "", dtypes: str = "", formats: str = "") -> Product | None:
    """The product of a kernel with these cells; results in the format of the first factor."""
    return product_of(op_type, Operands(inputs, dtypes, formats, outputs, "", formats.partition(";")[0]))


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "expected"),  # m, n, k, batch, experts
    [
        ("MatMulV2", "32,9216;4096,9216;4096", "32,4096", (32, 4096, 9216, 1, 1)),  # Addmm: (n, k) weight, a bias
        ("MatMulV3", "32,4096;32,9216", "4096,9216", (4096, 9216, 32, 1, 1)),  # weight gradient, k = rows
        ("MatMulV2", "2,100,512;512,64", "2,100,64", (200, 64, 512, 1, 1)),  # one weight for all rows
        ("MatMulV2", "1,100,512;512,64", "1,100,64", (100, 64, 512, 1, 1)),
        ("BatchMatMulV2", "2,4,128,64;2,4,256,64", "2,4,128,256", (128, 256, 64, 8, 1)),
        ("BatchMatMulV2", "128,64;8,64,256", "8,128,256", (128, 256, 64, 8, 1)),  # one left factor for all
        ("TransposeBatchMatMul", "128,16,64;16,64,512", "128,16,512", (128, 512, 64, 16, 1)),
        ("QuantBatchMatmulV3", "100,7168;7168,4096;4096;4096", "100,4096", (100, 4096, 7168, 1, 1)),
        ("AllGatherMatmul", "512,7168;7168,2048", "4096,2048;4096,7168", (4096, 2048, 7168, 1, 1)),  # over 8 ranks
        ("MatmulReduceScatter", "4096,2048;2048,7168", "512,7168", (4096, 7168, 2048, 1, 1)),
        ("MatmulAllReduce", "4096,2048;2048,7168;;", "4096,7168", (4096, 7168, 2048, 1, 1)),
        ("GroupedMatmul", "4096,7168;8,7168,2048;;;;;8", "4096,2048", (4096, 2048, 7168, 1, 8)),
        ("GroupedMatmul", "4096,7168;8,2048,7168;8", "4096,2048", (4096, 2048, 7168, 1, 8)),  # (n, k) weights
        ("GroupedMatmul", "96,64;64,32;64,32;32;32;2", "96,32", (96, 32, 64, 1, 2)),  # a matrix an expert, biases
        ("GroupedMatmul", "100,64;200,64;64,32;64,32;;", "100,32;200,32", (300, 32, 64, 1, 2)),  # lists of both
        ("GroupedMatmul", "4096,7168;4096,2048;8", "8,7168,2048", (7168, 2048, 4096, 1, 8)),  # weight gradients
        ("GroupedMatmulSwigluQuant", "96,64;4,64,512;4", "96,256;96", (96, 512, 64, 1, 4)),  # half of n comes out
        ("AlltoAllvGroupedMatMul", "90,64;4,64,32;4", "96,32", (96, 32, 64, 1, 4)),  # rows after the exchange
    ],
)
def test_sizes_of_a_product(op_type: str, inputs: str, outputs: str, expected: tuple[int, int, int, int, int]) -> None:
    found = read(op_type, inputs, outputs)
    assert found is not None
    assert (found.m, found.n, found.k, found.batch, found.experts) == expected


@pytest.mark.parametrize(
    ("inputs", "outputs", "types", "formats", "expected"),
    [
        # (4096, 7168) and (7168, 1024) in blocks of 16 x 16: (n / 16, m / 16, 16, 16)
        ("448,256,16,16;64,448,16,16", "64,256,16,16", "DT_BF16;DT_BF16", "FRACTAL_NZ;FRACTAL_NZ", (4096, 1024, 7168)),
        # INT8 blocks are 16 x 32: a weight (50, 100) is filled up to (64, 128)
        ("100,50;4,4,16,32", "100,100", "INT8;INT8", "ND;FRACTAL_NZ", (100, 100, 50)),
        ("100,50;8,4,16,32", "100,100", "INT8;INT8", "ND;FRACTAL_NZ", None),  # 256 columns are not 100
        # 16 x 8 blocks of FP32
        ("100,32;8,2,16,8", "100,64", "FLOAT;FLOAT", "ND;FRACTAL_NZ", (100, 64, 32)),
    ],
)
def test_fractal_formats(
    inputs: str, outputs: str, types: str, formats: str, expected: tuple[int, int, int] | None
) -> None:
    found = read("MatMulV3", inputs, outputs, types, formats)
    assert (found and (found.m, found.n, found.k)) == expected


def test_sizes_in_use_come_from_the_tensors_that_are_not_filled_up() -> None:
    """A weight (1000, 500) in NZ is stored as 63 x 16 by 32 x 16 = (1008, 512)."""
    found = product_of(
        "MatMulV3", Operands("100,1000;32,63,16,16", "DT_BF16;DT_BF16", "ND;FRACTAL_NZ", "100,500", "DT_BF16", "ND")
    )
    assert found is not None
    assert (found.m, found.n, found.k, found.formats) == (100, 500, 1000, ("ND", "FRACTAL_NZ"))


def test_int4_weights_are_packed_eight_to_an_int32() -> None:
    found = read("WeightQuantBatchMatmulV2", "4,4096;4096,512;4096", "4,4096", "DT_BF16;INT32")
    assert found is not None
    assert (found.n, found.left, found.right) == (4096, "bf16", "int4")


def test_factors_alone_tell_unless_one_of_them_may_be_transposed() -> None:
    """(64, 32) x (32, 64) is k = 32; that both are transposed, k = 64, is no framework's product."""
    found = read("MatMulV2", "64,32;32,64")
    assert found is not None
    assert (found.m, found.n, found.k) == (64, 64, 32)
    assert read("MatMulV2", "64,32;64,32") is None  # (m, k) x (n, k) or (k, m) x (k, n)


def test_flops_and_transpositions() -> None:
    """2 · 32 · 4096 · 9216, the weight stored as (n, k); a square weight does not tell."""
    found, square = (read("MatMulV2", inputs, "32,4096") for inputs in ("32,9216;4096,9216", "32,4096;4096,4096"))
    assert found is not None
    assert square is not None
    assert found.flops == 2 * 32 * 4096 * 9216
    assert (found.left_transposed, found.right_transposed, square.right_transposed) == (False, True, None)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ("", ""), ("N/A", "N/A"), ("-1,4096;4096,4096", "-1,4096"), ("0,4096;4096,4096", "0,4096"), (";;;", "32,4096"),
        ("32,4096", "32,4096"), ("32,4096;4096,4096", "33,4096"), ("32,64;32,64", ""),
        ("4,128,64;8,64,256", "8,128,256"), ("a,b;c,d", "e,f"), ("4096;4096,128", "128"),
    ],
)  # fmt: skip
def test_what_is_no_product_or_can_be_read_in_two_ways_tells_no_shape(inputs: str, outputs: str) -> None:
    assert read("MatMulV2", inputs, outputs) is None


@pytest.mark.parametrize("inputs", ["", ";", "4,4;4,4;4,4", "4,4;2,3,4", "8,4;3,5;3,5", "1,1;1,1,1"])
@pytest.mark.parametrize("outputs", ["", "4,4", "2,3,4", "4,4;4,4;4,4"])
def test_odd_lists_of_a_grouped_kernel_do_not_break(inputs: str, outputs: str) -> None:
    found = read("GroupedMatmul", inputs, outputs)
    assert found is None or min(found.m, found.n, found.k, found.batch, found.experts) >= 1


@pytest.mark.parametrize(
    ("op_type", "core", "expected"),
    [
        ("MatMulV2", "AI_CORE", True), ("BatchMatMulV2", "MIX_AIC", True), ("GroupedMatmul", "", True),
        ("QuantBatchMatmulV3", "AI_CORE", True), ("MatmulAllReduce", "MIX_AIC", True), ("Gemm", "AI_CORE", True),
        ("MemSet", "AI_VECTOR_CORE", False), ("FlashAttentionScore", "MIX_AIC", False), ("Conv2D", "AI_CORE", False),
        ("MatMulV2", "AI_CPU", False), ("Add", "AI_VECTOR_CORE", False),
    ],
)  # fmt: skip
def test_which_kernels_multiply(op_type: str, core: str, *, expected: bool) -> None:
    assert is_product(op_type, core) is expected
