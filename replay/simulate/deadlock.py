"""Explain a deadlock: which rank waits with which op for what, and one cycle in order."""

from __future__ import annotations

from collections import deque

import numpy as np

from replay.core.columns import Int32, Int64
from replay.graph.types import Graph

_SHOWN = 8  # ranks or ops spelled out; more do not help to find the wrong edge


def describe_deadlock(graph: Graph, done: Int32) -> str:
    """One message for a graph of which only the ops ``done`` can run.

    For each rank: its first op on a cycle (by measured start, then index) and what that op waits for; then the
    shortest cycle through the first of them, each op waiting for the next.
    """
    knot = _knots(graph, done)
    first = _first_by_rank(graph, knot)
    waits = [
        f"{graph.describe(op)} waits for {graph.describe(_predecessors(graph, op, knot)[0])}" for op in first[:_SHOWN]
    ]
    if len(first) > _SHOWN:
        waits.append(f"{len(first) - _SHOWN} more ranks wait")
    cycle = _shortest_cycle(graph, first[0], knot)
    shown = [graph.describe(op) for op in cycle[:_SHOWN]] + (["…"] if len(cycle) > _SHOWN else [])
    return (
        f"deadlock: {len(graph) - len(done)} of {len(graph)} ops can never start. {'; '.join(waits)}. "
        f"Cycle of {len(cycle)}: {' ← '.join([*shown, graph.describe(cycle[0])])}"
    )


def _knots(graph: Graph, done: Int32) -> Int64:
    """Per op, the strongly connected component it deadlocks in; -1 for ops on no cycle."""
    from scipy.sparse import coo_array  # noqa: PLC0415 - only needed to explain a failure
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    n = len(graph)
    stuck = np.ones(n, np.bool_)
    stuck[done] = False
    source, target = graph.edges.source, graph.edges.target
    inner = stuck[source] & stuck[target]
    links = coo_array((np.ones(int(inner.sum()), np.int8), (source[inner], target[inner])), shape=(n, n))
    _, component = connected_components(links, directed=True, connection="strong")
    cyclic = np.bincount(component, minlength=n)[component] > 1
    cyclic[source[inner & (source == target)]] = True
    return np.where(cyclic, component, -1).astype(np.int64)


def _first_by_rank(graph: Graph, knot: Int64) -> list[int]:
    """First op on a cycle of every rank that has one, ranks ascending."""
    ops = np.flatnonzero(knot >= 0)
    order = ops[np.lexsort((ops, graph.measured_start_ns[ops], graph.rank[ops]))]
    _, at = np.unique(graph.rank[order], return_index=True)
    return [int(op) for op in order[at]]


def _predecessors(graph: Graph, op: int, knot: Int64) -> list[int]:
    """Ops of the same knot that ``op`` waits for, in edge order."""
    row = graph.edges.source[graph.edges.offsets[op] : graph.edges.offsets[op + 1]]
    return [int(before) for before in row if knot[before] == knot[op]]


def _shortest_cycle(graph: Graph, op: int, knot: Int64) -> list[int]:
    """Ops from ``op`` back to (not including) itself, each waiting for the next; breadth first."""
    parent: dict[int, int] = {}
    queue = deque([op])
    while queue:
        here = queue.popleft()
        for before in _predecessors(graph, here, knot):
            if before == op:
                path = [here]
                while path[-1] != op:
                    path.append(parent[path[-1]])
                return path[::-1]
            if before not in parent:
                parent[before] = here
                queue.append(before)
    raise AssertionError("an op of a strongly connected component lies on a cycle")
