"""A collective member is two ops (its arrival and its transfer); reports show it as one thing."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.types import Graph, OpKind


def transfer_of(graph: Graph) -> Int64:
    """Per op, the transfer that an arrival belongs to (same row of ``graph.comms``); -1 for every other op."""
    by_row = np.full(len(graph.comms) + 1, -1, np.int64)  # the last entry takes comm = -1
    transfers = np.flatnonzero((graph.kind == OpKind.TRANSFER) & (graph.comm >= 0))
    by_row[graph.comm[transfers]] = transfers
    return np.where(graph.kind == OpKind.ARRIVAL, by_row[graph.comm], -1)
