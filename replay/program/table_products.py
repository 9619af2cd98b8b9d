"""Matrix products of a graph's ops by the kernel table beside the trace (Ascend), as size columns of cost functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parsers.ascend.matmul import Product, is_fused
from replay.core.columns import Bool, Float64, Int32, Int64, Interner
from replay.core.dtypes import first_of
from replay.costs.cube_product import SIZES, is_hf32, products_in, sizes_of
from replay.graph.types import Graph
from replay.trace import MISSING, KernelDetails, Trace


@dataclass(frozen=True, slots=True)
class TableProducts:
    """One row per op.

    ``sizes`` (:mod:`replay.samples`) are 0 where the table tells no product, or one that is fused with a collective,
    whose time is not the product's alone. ``dtype`` indexes ``dtypes`` and is known of any kernel in the table, -1 of
    others: what is multiplied, ``tf32`` being HF32.
    """

    known: Bool
    experts: Float64
    inner: Float64  # k of all experts together, where they share rows
    sizes: dict[str, Float64]
    dtype: Int32
    dtypes: tuple[str, ...]

    def shapes(self) -> Float64:
        """Columns FLOPs, rows, experts (or matrices of a batch), n, k and whether the experts' rows are summed over."""
        m, n, k, batch = (self.sizes[name] for name in ("m", "n", "k", "batch"))
        over_inner = self.inner > k
        rows = np.where(over_inner, self.inner, m * batch)
        return np.stack(
            [2.0 * m * n * k * batch, rows, batch, n, np.where(over_inner, self.inner, k), over_inner], axis=1
        )

    def by_dtype(self, ops: Int64) -> Iterator[tuple[str, Int64]]:
        """``ops`` by their data type, "" of those that no table describes."""
        for code in np.unique(self.dtype[ops]).tolist():
            yield self.dtypes[code] if code >= 0 else "", ops[self.dtype[ops] == code]

    def columns(self, ops: Int64) -> dict[str, Float64]:
        """Size columns of some ops."""
        return {name: column[ops] for name, column in self.sizes.items()}


def table_products(graph: Graph, trace: Trace) -> TableProducts:
    """What the trace's kernel table says of each op; nothing known where there is no table."""
    count, words = len(graph), Interner()
    sizes = np.zeros((count, len(SIZES)))
    experts, inner = np.zeros(count), np.zeros(count)
    dtype = np.full(count, MISSING, np.int32)
    if trace.details is not None and len(trace.details):
        ops = _ops_of(graph, trace, trace.details)
        told: list[tuple[int, Product, str]] = []
        products = products_in(trace.details)
        for row in np.flatnonzero(ops >= 0).tolist():
            op, found = int(ops[row]), products.get(row)
            dtype[op] = words.code(found[1] if found else _dtype(trace.details, row))
            if found is not None and not is_fused(trace.details.op_type[row]):
                told.append((op, *found))
        experts[[op for op, _, _ in told]] = [product.experts for _, product, _ in told]
        inner[[op for op, _, _ in told]] = [product.k for _, product, _ in told]
        columns = sizes_of([(product, word) for _, product, word in told])
        sizes[[op for op, _, _ in told]] = np.stack([columns[name] for name in SIZES], axis=1)
    columns = {name: sizes[:, at].copy() for at, name in enumerate(SIZES)}
    return TableProducts(columns["batch"] > 0, experts, inner, columns, dtype, words.names)


def _ops_of(graph: Graph, trace: Trace, details: KernelDetails) -> Int64:
    """Op of each row of the table, -1 of kernels outside of the step."""
    op_of = np.full(len(trace), MISSING, np.int64)
    has = graph.event >= 0
    op_of[graph.event[has]] = np.flatnonzero(has)
    return np.asarray(op_of[details.event])


def _dtype(details: KernelDetails, row: int) -> str:
    """Type of a kernel's first input that is not a list of sizes, as that of a gradient of a convolution is."""
    words = [first_of(types) for types in details.input_dtypes[row].split(";")]
    word = next((word for word in words if word and word not in ("int32", "int64")), words[0])
    return "tf32" if word == "fp32" and is_hf32(details, row) else word
