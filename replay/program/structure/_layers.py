"""Numbers of layers: from the place in a chunk to the place in the model."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.program.layers import first_layer
from replay.program.ranges import MISSING
from replay.program.structure._evidence import Evidence


def in_model(evidence: Evidence, local: Int64) -> Int64:
    """Layer in the model of every op from ``local``, its layer in the chunk it is in (-1 stays -1).

    A rank that holds several chunks without saying which op is in which counts its layers through.
    """
    layer = local.copy()
    chunk = evidence.said("chunk")
    known = np.flatnonzero(local >= 0)
    for rank, c in set(zip(evidence.graph.rank[known].tolist(), chunk[known].tolist(), strict=True)):
        here = known[(evidence.graph.rank[known] == rank) & (chunk[known] == c)]
        layer[here] += first_layer(evidence.layout, evidence.model, rank, c)
    return np.where(local >= 0, layer, MISSING)
