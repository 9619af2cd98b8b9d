"""What the engine computes, in plain Python. The numba kernels must agree with this on every graph, bit for bit."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np

from replay.core.errors import GraphError
from replay.graph.types import Graph
from replay.simulate.timeline import Timeline


def simulate(graph: Graph, *, residuals: bool = False) -> Timeline:
    """Execute ``graph``: every op starts at the latest of its ready time and its incoming edges.

    start = max(ready, max over edges of (start | end of source) + lag) + (residual when asked for); end = start +
    duration. ``bound_by`` is the edge with the latest release, the lowest index on a tie; -1 where ready is later.
    """
    edges = graph.edges
    incoming = [range(int(edges.offsets[op]), int(edges.offsets[op + 1])) for op in range(len(graph))]
    start = [0] * len(graph)
    end = [0] * len(graph)
    bound_by = [-1] * len(graph)
    sources = {op: [int(edges.source[edge]) for edge in row] for op, row in enumerate(incoming)}
    try:
        order = list(TopologicalSorter(sources).static_order())
    except CycleError as error:
        raise GraphError("the graph has a cycle") from error
    for op in order:
        release = int(graph.ready_ns[op])
        for edge in incoming[op]:
            source = int(edges.source[edge])
            time = (start if edges.from_start[edge] else end)[source] + int(edges.lag_ns[edge])
            if time > release or (time == release and bound_by[op] < 0):
                release, bound_by[op] = time, edge
        start[op] = release + (int(graph.residual_ns[op]) if residuals else 0)
        end[op] = start[op] + int(graph.duration_ns[op])
    return Timeline(np.array(start, np.int64), np.array(end, np.int64), np.array(bound_by, np.int64))
