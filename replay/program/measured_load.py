"""How unevenly the experts were loaded in the measurement, by split sizes of dispatches, else by rows of GEMMs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Float64, Int64
from replay.core.dtypes import element_nbytes
from replay.graph.types import Graph, OpKind
from replay.program.expert_ops import gemm_ops
from replay.program.gemm_shapes import gemm_shapes
from replay.program.origins import origins
from replay.program.template_ids import row_ids
from replay.program.types import Labels, Phase, Role
from replay.trace import Trace


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Tokens received over tokens sent, one row per op; a rank sends tokens · k, so 1 is the mean load.

    ``own`` is that of the op's rank in its layer, ``busiest`` the largest of all ranks seen in that layer. 1 where
    nothing tells, and ``known`` is False where nothing does at all.
    """

    own: Float64
    busiest: Float64
    known: bool


def measured_load(graph: Graph, trace: Trace, labels: Labels) -> MeasuredLoad:
    """Loads from the sizes of the forward dispatches: what they brought, else the rows that the experts' GEMMs had."""
    event = np.maximum(graph.event, 0)
    member = np.where(graph.event >= 0, trace.comm[event] if len(trace) else -1, -1)
    chosen = (graph.kind == OpKind.TRANSFER) & (labels.role == Role.DISPATCH) & (labels.phase != Phase.BACKWARD)
    chosen &= member >= 0
    row = member[chosen]
    sent, received = trace.collectives.in_nbytes[row], trace.collectives.out_nbytes[row]
    place = row_ids(graph.rank, labels.layer)
    if not ((sent > 0) & (received > 0)).any():
        received = _received_nbytes(graph, trace, labels, chosen, place)
    both = (sent > 0) & (received > 0)
    at = place[chosen][both]
    size = int(place.max(initial=-1)) + 1
    totals = (np.bincount(at, weights=x[both], minlength=size) for x in (received, sent))
    received_by, sent_by = (total.astype(np.float64) for total in totals)
    load = np.divide(received_by, sent_by, out=np.ones(size), where=sent_by > 0)
    own = load[place] if size else np.ones(len(graph))
    layer = row_ids(labels.layer)
    most = np.zeros(int(layer.max(initial=-1)) + 1)
    np.maximum.at(most, layer, own)
    return MeasuredLoad(own, most[layer] if len(most) else own, bool(both.any()))


def _received_nbytes(graph: Graph, trace: Trace, labels: Labels, dispatches: Bool, place: Int64) -> Float64:
    """Bytes that each of the ``dispatches`` brought: mean rows of its (rank, layer)'s first GEMMs of several experts.

    A row is as wide as that GEMM's k. HCCL counts what an all-to-all sends only; GEMMs of one expert each tell no sum.
    """
    nbytes = np.array([element_nbytes(word) or 0 for word in trace.collectives.dtype] or [0], np.float64)
    width = nbytes[trace.comm[graph.event[dispatches]]]
    gemms = gemm_ops(graph) & (labels.role == Role.EXPERTS) & (labels.phase == Phase.FORWARD)
    shapes = gemm_shapes(graph, trace, origins(graph, trace), gemms)
    told = np.flatnonzero(gemms & (shapes.experts > 1))
    told = told[np.lexsort((graph.measured_start_ns[told], labels.microbatch[told], place[told]))]
    key = row_ids(place[told], labels.microbatch[told])
    _, first = np.unique(key, return_index=True)
    told = told[first]
    size = int(place.max(initial=-1)) + 1
    elements = np.bincount(place[told], weights=shapes.rows[told] * shapes.inner[told], minlength=size)
    count = np.bincount(place[told], minlength=size)
    mean = np.divide(elements, count, out=np.zeros(size), where=count > 0)
    return np.asarray(mean[place[dispatches]] * width)
