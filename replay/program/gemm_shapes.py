"""Shapes of GEMM kernels: from the kernel table beside a trace, else from "Input Dims" of the operator around them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import msgspec
import numpy as np
import numpy.typing as npt

from replay.core.columns import Bool, Float64, Int64
from replay.graph.types import Graph
from replay.program.origins import Origins
from replay.program.table_products import table_products
from replay.trace import MISSING, EventKind, Trace

OPERATOR = re.compile(r"(?:mm|linear|matmul|gemm)(?:_|$|\b)", re.IGNORECASE)
"""Names of operators whose two matrix inputs are multiplied."""

_NESTED_OPERATORS = 8  # how deep operators with GEMM shapes lie inside one another (linear > addmm > …)


@dataclass(frozen=True, slots=True)
class GemmShapes:
    """One row per op: FLOPs, rows of the activation and number of experts' weights; 0 where not known.

    ``columns`` and ``inner`` are n and k of (m, k) x (k, n); ``weight_gradient`` says that the rows of several experts
    are summed over; ``operator`` is the trace event that told, -1 none or a kernel table.
    """

    flops: Float64
    rows: Float64
    experts: Float64
    columns: Float64
    inner: Float64
    weight_gradient: Bool
    operator: Int64


def gemm_shapes(graph: Graph, trace: Trace, places: Origins, gemms: Bool) -> GemmShapes:
    """Shapes of the ``gemms`` from the kernel table, else from the innermost operator around their launch.

    An operator that launched several of them tells none of their shapes.
    """
    read = np.array([_read(text) for text in trace.shapes] or [_UNTOLD])
    operator = np.array([bool(OPERATOR.search(name)) for name in trace.names], dtype=np.bool_)
    rows = np.flatnonzero((trace.kind == EventKind.CPU_OP) & (trace.shape >= 0) & operator[trace.name])
    rows = rows[read[trace.shape[rows], 0] > 0]
    event = np.full(len(graph), MISSING, dtype=np.int64)
    for lane in np.unique(trace.lane[rows]):
        here = np.flatnonzero(gemms & (places.lane == lane))
        event[here] = _enclosing(trace, rows[trace.lane[rows] == lane], places.time_ns[here])
    found, count = np.unique(event[event >= 0], return_counts=True)
    event[np.isin(event, found[count > 1])] = MISSING
    told = np.where((event >= 0)[:, None], read[trace.shape[event]], 0.0)
    table = table_products(graph, trace)
    told = np.where((table.known & gemms)[:, None], table.shapes(), told)
    columns = (told[:, 0], told[:, 1], told[:, 2], told[:, 3], told[:, 4], told[:, 5] > 0)
    return GemmShapes(*columns, np.where(table.known, MISSING, event))


def _enclosing(trace: Trace, rows: npt.NDArray[np.intp], time_ns: Int64) -> Int64:
    """Innermost of the operators ``rows`` of one lane that is open at each time, -1 none."""
    rows = rows[np.argsort(trace.start_ns[rows], kind="stable")]
    at = np.searchsorted(trace.start_ns[rows], time_ns, side="right") - 1
    found = np.full(len(time_ns), MISSING, dtype=np.int64)
    for _ in range(_NESTED_OPERATORS):
        candidate = rows[np.maximum(at, 0)]
        fits = (found < 0) & (at >= 0) & (trace.end_ns[candidate] >= time_ns)
        found[fits] = candidate[fits]
        at -= 1
    return found


_UNTOLD = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def _read(text: str) -> tuple[float, float, float, float, float, float]:
    """(FLOPs, rows, experts, n, k, 1 for a weight gradient) of a GEMM with these input dimensions; zeros for others.

    The first two inputs with two or more dimensions are multiplied: (m, k) x (k, n), also with the second transposed
    (``linear``). Grouped: a third dimension of the second or third input counts the experts.
    """
    shapes = [shape for shape in _dimensions(text) if len(shape) > 1]
    if len(shapes) < 2 or (len(shapes[0]) > 2 and len(shapes[1]) > 2):
        return _UNTOLD
    left, right = shapes[0], shapes[1]
    if left[-1] not in (right[-2], right[-1]):
        return _UNTOLD
    columns = right[-1] if left[-1] == right[-2] else right[-2]
    grouped = next((shape[0] for shape in shapes[1:] if len(shape) == 3), 1)
    over_inner = grouped > 1 and len(right) == 2  # experts' weight gradients: rows are the inner size
    rows = left[-1] if over_inner else prod(left[:-1])
    return 2.0 * prod(left) * columns, float(rows), float(grouped), float(columns), float(left[-1]), float(over_inner)


def _dimensions(text: str) -> list[list[int]]:
    """Dimensions of the inputs: a JSON list of lists (kineto) or ``4096,8192;8192,1024;`` (torch_npu)."""
    if ";" in text:
        parts = [part.split(",") for part in text.split(";")]
        return [[int(size) for size in part] for part in parts if all(size.isdecimal() for size in part)]
    try:
        dims = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return []
    listed = [d for d in dims if isinstance(d, list)] if isinstance(dims, list) else []
    return [d for d in listed if all(isinstance(size, int) for size in d)]
