"""Samples from a trace: GEMMs with the sizes of their operators, collectives with their transfer times (R3).

GEMM kernels take m, n, k and data type from the operator that launched them, where it launched one only. A collective
counts where its transfer is known: all its members are in the trace, so that waiting is told from moving data.
"""

from __future__ import annotations

import numpy as np

from parsers.samples._rows import Row, table
from replay.core.columns import Int64
from replay.core.dtypes import first_of, matrix_elements
from replay.core.errors import TraceError
from replay.graph.build import build
from replay.graph.types import Graph, OpKind
from replay.program.gemm_shapes import gemm_shapes
from replay.program.op_class import OpClass, op_classes
from replay.program.origins import origins
from replay.program.table_products import TableProducts, table_products
from replay.samples import Samples
from replay.trace import CollectiveKind, Trace


def samples_of_trace(trace: Trace) -> Samples:
    """All GEMMs and collectives of the trace's median step. :class:`TraceError` where it has neither with sizes.

    ``line`` is the number of the event in the trace, from 1.
    """
    graph = build(trace)
    rows = [*_gemms(graph, trace), *_collectives(graph, trace)]
    name = trace.files[0] if len(trace.files) == 1 else f"{len(trace.files)} traces"
    if not rows:
        raise TraceError(
            f"{name}: no samples in it: GEMMs need recorded shapes (record_shapes=True), collectives the traces of all "
            "their ranks"
        )
    return table(rows, name)


def _gemms(graph: Graph, trace: Trace) -> list[Row]:
    """One row a dense GEMM whose shape the kernel table or the operator tells."""
    table = table_products(graph, trace)
    gemms = np.asarray(op_classes(graph) == OpClass.GEMM) & ~table.known
    listed = np.flatnonzero(table.known & (table.experts == 1) & (graph.duration_ns > 0))
    found = [_listed(graph, trace, table, op) for op in listed.tolist()]
    shapes = gemm_shapes(graph, trace, origins(graph, trace), gemms)
    for op in np.flatnonzero(gemms & (shapes.flops > 0) & (shapes.experts == 1) & (graph.duration_ns > 0)):
        n, k = float(shapes.columns[op]), float(shapes.inner[op])
        dtype = _dtype(trace, int(shapes.operator[op]))
        elements = matrix_elements(dtype)
        sizes = {"m": float(shapes.flops[op]) / (2.0 * n * k), "n": n, "k": k}
        if elements is not None:
            sizes |= elements.sizes()
        found.append(_row("gemm", graph, trace, int(op), sizes, dtype))
    return found


def _listed(graph: Graph, trace: Trace, table: TableProducts, op: int) -> Row:
    sizes = {name: float(column[op]) for name, column in table.sizes.items()}
    return _row("gemm", graph, trace, op, sizes, table.dtypes[int(table.dtype[op])])


def _collectives(graph: Graph, trace: Trace) -> list[Row]:
    """One row a collective: the longest transfer of its members; bytes of the larger buffer."""
    ops = np.flatnonzero((graph.kind == OpKind.TRANSFER) & (graph.comm >= 0) & (graph.duration_ns > 0))
    comm = graph.comm[ops]
    table = graph.comms
    whole = (table.size[comm] > 1) & (table.seen[comm] == table.size[comm]) & (table.nbytes[comm] > 0)
    whole &= table.transfer_low_ns[comm] == table.transfer_high_ns[comm]
    return [
        _row(
            CollectiveKind(int(table.kind[graph.comm[op]])).name.lower(), graph, trace, int(op),
            {"nbytes": float(table.nbytes[graph.comm[op]]), "ranks": float(table.size[graph.comm[op]])}, "",
        )
        for op in _longest(graph, ops[whole])
    ]  # fmt: skip


def _longest(graph: Graph, ops: Int64) -> Int64:
    """Of the transfers of each collective the longest."""
    match = graph.comms.match[graph.comm[ops]]
    order = np.lexsort((-graph.duration_ns[ops], match))
    _, first = np.unique(match[order], return_index=True)
    return np.asarray(ops[order[np.sort(first)]])


def _row(op: str, graph: Graph, trace: Trace, index: int, sizes: dict[str, float], dtype: str) -> Row:
    line = int(graph.event[index]) + 1
    return Row(op, float(graph.duration_ns[index]), line, sizes, dtype, trace.device, variant=trace.format, repeats=1)


def _dtype(trace: Trace, operator: int) -> str:
    """Data type of an operator's first input, "" where it does not say."""
    code = int(trace.dtype[operator])
    return first_of(trace.dtypes[code]) if code >= 0 else ""
