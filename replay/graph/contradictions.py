"""R4: edges that contradict the measured order are dropped and counted; cycles lose their weakest inferred edge."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from replay.core.columns import Int32, Int64
from replay.core.errors import GraphError
from replay.graph.edge_list import EdgeList
from replay.graph.lags import Measured, released_ns
from replay.graph.syncs import CLOCK_TOLERANCE_NS
from replay.graph.types import Rule

_CERTAIN = (Rule.HOST_ORDER, Rule.STREAM_ORDER, Rule.LAUNCH, Rule.COLLECTIVE, Rule.GRAPH)


def drop_contradictions(edges: EdgeList, measured: Measured) -> tuple[EdgeList, int]:
    """Edges without those whose source ended after the target had begun (beyond the clocks' tolerance)."""
    late = released_ns(edges, measured) > measured.start_ns[edges.target] + CLOCK_TOLERANCE_NS
    wrong = late & ~np.isin(edges.rule, _CERTAIN)
    return edges.take(~wrong), int(wrong.sum())


def strong_components(n: int, source: Int64 | Int32, target: Int64 | Int32) -> Int32:
    """Per op a number that it shares with those it lies on a cycle with; numbers run from 0."""
    ones = np.ones(len(source), np.int8)
    adjacency = coo_array((ones, (source, target)), shape=(n, n)).tocsr()
    _, component = connected_components(adjacency, directed=True, connection="strong")
    return np.asarray(component, np.int32)


def break_cycles(edges: EdgeList, measured: Measured) -> tuple[EdgeList, int]:
    """Remove, from each cycle, the inferred edge that fits the measurement worst, until none is left."""
    broken = 0
    n = len(measured.start_ns)
    while n:
        component = strong_components(n, edges.source, edges.target)
        loops = edges.source == edges.target
        if int(component.max()) + 1 == n and not loops.any():
            return edges, broken
        inside = (component[edges.source] == component[edges.target]) & ~edges.recorded
        if not inside.any():
            inside = (component[edges.source] == component[edges.target]) & ~np.isin(edges.rule, _CERTAIN)
        if not inside.any():
            raise GraphError("the recorded order of ops contains a cycle: the trace's clocks or streams contradict it")
        slack = measured.start_ns[edges.target] - released_ns(edges, measured)
        worst = int(np.flatnonzero(inside)[np.argmin(slack[inside])])
        keep = np.ones(len(edges), np.bool_)
        keep[worst] = False
        edges, broken = edges.take(keep), broken + 1
    return edges, broken
