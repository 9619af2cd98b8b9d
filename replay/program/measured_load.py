"""How unevenly the experts were loaded in the measurement, from the split sizes of its dispatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Float64
from replay.graph.types import Graph, OpKind
from replay.program.template_ids import row_ids
from replay.program.types import Labels, Phase, Role
from replay.trace import Trace


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Tokens received over tokens sent, one row per op; a rank sends tokens · k, so 1 is the mean load.

    ``own`` is that of the op's rank in its layer, ``busiest`` the largest of all ranks seen in that layer. 1 where no
    split sizes were recorded, and ``known`` is False where none were at all.
    """

    own: Float64
    busiest: Float64
    known: bool


def measured_load(graph: Graph, trace: Trace, labels: Labels) -> MeasuredLoad:
    """Loads from the forward dispatches' input and output sizes."""
    event = np.maximum(graph.event, 0)
    member = np.where(graph.event >= 0, trace.comm[event] if len(trace) else -1, -1)
    chosen = (graph.kind == OpKind.TRANSFER) & (labels.role == Role.DISPATCH) & (labels.phase != Phase.BACKWARD)
    chosen &= member >= 0
    row = member[chosen]
    sent, received = trace.collectives.in_nbytes[row], trace.collectives.out_nbytes[row]
    both = (sent > 0) & (received > 0)
    place = row_ids(graph.rank, labels.layer)
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
