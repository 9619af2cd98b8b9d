"""What one pass of each chunk costs on the device, from a labelled graph."""

from __future__ import annotations

import numpy as np

from replay.core.units import ns_to_ms
from replay.graph.types import DEVICE_OPS, Graph
from replay.program.groups import coordinates
from replay.program.types import Labels, Phase
from replay.report.result import ChunkCostRow

PASSES = (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHT)


def chunk_costs(graph: Graph, labels: Labels) -> tuple[ChunkCostRow, ...]:
    """Mean and spread, over ranks and micro-batches, of the summed device time of a pass by (stage, chunk, phase).

    Empty where no range tells micro-batches apart. Ops that overlap count each by itself.
    """
    stage_of = {int(rank): coordinates(labels.layout, int(rank))["pp"] for rank in np.unique(graph.rank)}
    chosen = np.isin(graph.kind, DEVICE_OPS) & np.isin(labels.phase, PASSES) & (labels.microbatch >= 0)
    if not chosen.any():
        return ()
    stage = np.array([stage_of[int(rank)] for rank in graph.rank[chosen]])
    columns = (labels.chunk, labels.phase, graph.rank, labels.microbatch)
    keys = np.stack([stage, *(column[chosen].astype(np.int64) for column in columns)], axis=1)
    passes, place = np.unique(keys, axis=0, return_inverse=True)
    time_ns = np.bincount(place.reshape(-1), weights=graph.duration_ns[chosen])
    kinds, kind_of = np.unique(passes[:, :3], axis=0, return_inverse=True)
    rows = (time_ns[kind_of.reshape(-1) == index] for index in range(len(kinds)))
    return tuple(
        ChunkCostRow(
            int(stage),
            int(chunk),
            Phase(phase).name.lower(),
            ns_to_ms(times.mean()),
            ns_to_ms(times.std()),
            len(times),
        )
        for (stage, chunk, phase), times in zip(kinds, rows, strict=True)
    )
