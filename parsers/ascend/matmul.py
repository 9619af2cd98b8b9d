"""What a matrix kernel of Ascend multiplies, from the shapes, formats and types of its row in a kernel table.

Tables list tensors, not operands: which axes are summed over, and whether a factor is stored transposed, follows from
the shapes of both factors and of the result. In FRACTAL_NZ a matrix (m, n) is stored as (n1, m1, 16, n0) blocks of
16 rows of 32 bytes, so its sizes are those of whole blocks; the other tensors tell the sizes in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from parsers.ascend.grouped_matmul import grouped_sizes
from parsers.ascend.tensors import Sizes, Tensor, matching, tensors, true_size

_PRODUCT = re.compile(r"mat_?mul|(?<![a-z])gemm|mm_?all_?reduce", re.IGNORECASE)
_NO_PRODUCT = re.compile(r"mem_?set|cast|trans_?data|finalize|gather_out|attention", re.IGNORECASE)
_GROUPED = re.compile(r"grouped", re.IGNORECASE)
_FUSED = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE)
_MOVES_ROWS = re.compile(r"all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE)
_PERMUTES = re.compile(r"transpose", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Product:
    """``batch`` products (m, k) x (k, n). Of a grouped kernel m is the rows of all ``experts`` together, or k is where
    ``over_inner`` (weight gradients); a transposition is ``None`` where the sizes do not tell it."""

    m: int
    n: int
    k: int
    batch: int = 1
    experts: int = 1
    over_inner: bool = False
    left_transposed: bool | None = None
    right_transposed: bool | None = None
    left: str = ""  # data types, "" unknown
    right: str = ""
    output: str = ""
    formats: tuple[str, str] = ("", "")  # of both factors

    @property
    def flops(self) -> float:
        """2 · m · n · k of every product."""
        return 2.0 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Operands:
    """The cells of a kernel table that describe tensors (:class:`replay.trace.KernelDetails`)."""

    input_shapes: str
    input_dtypes: str = ""
    input_formats: str = ""
    output_shapes: str = ""
    output_dtypes: str = ""
    output_formats: str = ""


def is_product(op_type: str, core: str = "") -> bool:
    """True for kernels that multiply matrices: MatMulV2, BatchMatMulV2, GroupedMatmul, MatmulAllReduce, …"""
    on_vector = core.upper().startswith(("AI_VECTOR", "MIX_AIV", "AI_CPU", "HCCL", "COMMUNICATION"))
    return bool(_PRODUCT.search(op_type)) and not _NO_PRODUCT.search(op_type) and not on_vector


def is_fused(op_type: str) -> bool:
    """True for products in one kernel with a collective (MC2): their time is not the product's alone."""
    return bool(_FUSED.search(op_type))


def product_of(op_type: str, operands: Operands) -> Product | None:
    """The product of a kernel; ``None`` where its shapes are missing, dynamic, empty, or those of no product."""
    given = tensors(operands.input_shapes, operands.input_dtypes, operands.input_formats)
    results = tensors(operands.output_shapes, operands.output_dtypes, operands.output_formats)
    if given is None or results is None or len(given) < 2:
        return None
    found = grouped_sizes(given, results, op_type) if _GROUPED.search(op_type) else None
    if found is None:
        found = _dense(given[0], given[1], results[0] if results else None, op_type)
    if found is None:
        return None
    return Product(
        found.m, found.n, found.k, found.batch, found.experts, found.over_inner, found.left_transposed,
        found.right_transposed, given[0].dtype, found.right_dtype or given[1].dtype,
        results[0].dtype if results else "", (given[0].layout, given[1].layout),
    )  # fmt: skip


def _dense(left: Tensor, right: Tensor, result: Tensor | None, op_type: str) -> Sizes | None:
    """Sizes of one product, or of a batch of them."""
    found = _agreed(_fitting(left, right, result), told=result is not None)
    if found is None and result is not None and _PERMUTES.search(op_type):
        found = _agreed(_fitting(*(t.swapped() for t in (left, right, result))), told=True)
        found = found or _agreed(_fitting(left.swapped(), right, result.swapped()), told=True)
    if found is None and result is not None and _MOVES_ROWS.search(op_type):
        found = _agreed(_gathering(left, right, result), told=True)
    return found


def _fitting(left: Tensor, right: Tensor, result: Tensor | None) -> Iterator[Sizes]:
    """Every way to read the tensors as a product, plain factors first."""
    for m, ka, left_turned in left.views():
        for kb, n, right_turned in right.views():
            if not matching(ka, kb) or (right.batch != left.batch and 1 not in (left.batch, right.batch)):
                continue
            folded = right.batch == 1 and left.batch > 1 and not left_turned  # one weight for all rows
            batch = 1 if folded else max(left.batch, right.batch)
            rows = m.times(left.batch) if folded else m
            if result is None:
                yield Sizes(rows.size, n.size, true_size(ka, kb), batch, 1, False, left_turned, right_turned)
                continue
            here = result.rows() if folded or batch == 1 else result.height
            whole = batch in (1, result.batch)
            if whole and matching(rows, here) and matching(n, result.width):
                sizes = true_size(rows, here), true_size(n, result.width), true_size(ka, kb)
                yield Sizes(*sizes, batch, 1, False, left_turned, right_turned)


def _gathering(left: Tensor, right: Tensor, result: Tensor) -> Iterator[Sizes]:
    """Fused with a collective that gathers or scatters rows: the longer of both row counts is multiplied."""
    for m, ka, left_turned in left.views():
        for kb, n, right_turned in right.views():
            rows, here = m.size * left.batch, result.rows().size
            even = max(rows, here) % min(rows, here) == 0
            if matching(ka, kb) and matching(n, result.width) and even and right.batch == 1:
                sizes = max(rows, here), true_size(n, result.width), true_size(ka, kb)
                yield Sizes(*sizes, 1, 1, False, left_turned, right_turned)


def _agreed(readings: Iterator[Sizes], *, told: bool) -> Sizes | None:
    """What all readings say; where only the factors are known and they can be read in two ways, nothing.

    No framework multiplies two transposed factors, so that reading counts only where the result tells it.
    """
    found = list(readings)
    plain = [reading for reading in found if not (reading.left_transposed and reading.right_transposed)]
    found = plain if plain and not told else found
    if not found:
        return None
    first = found[0]
    others: Sequence[Sizes] = [other for other in found if other.counts() == first.counts()]
    if len(others) < len(found) and not told:
        return None
    turned = ({reading.left_transposed for reading in others}, {reading.right_transposed for reading in others})
    left, right = (next(iter(words)) if len(words) == 1 else None for words in turned)
    return Sizes(*first.counts(), first.over_inner, left, right)
