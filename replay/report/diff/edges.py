"""Waits of calls that only one of two steps has: taken out of it, or put into the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.core.columns import Bool, Int32, Int64
from replay.graph.contradictions import strong_components
from replay.graph.types import Edges, Graph, Rule

_NEVER_NS = -(2**40)  # 18 minutes: an edge with this lag releases nothing


def without_waits(graph: Graph, gone: Bool) -> Graph:
    """The graph in which the calls ``gone`` hold up nothing: what they waited for releases nobody."""
    edges = graph.edges
    waits = (edges.rule == Rule.HOST_SYNC) & (_after(graph, gone) | gone)[edges.target]
    if not waits.any():
        return graph
    lag = edges.lag_ns.copy()
    lag[waits] = _NEVER_NS
    return replace(graph, edges=replace(edges, lag_ns=lag))


def with_waits_of(graph: Graph, other: Graph, unit_of: tuple[Int64, Int64], missing: Bool) -> Graph:
    """The graph in which threads also wait where the calls of ``missing`` units make them wait in ``other``.

    ``unit_of`` gives the unit of every op of both graphs. The wait goes before the op whose unit follows the call, for
    the ops whose units were waited for, plus the call's own time. Waits that would close a circle are left out: there,
    the two steps order their work differently.
    """
    calls = (unit_of[1] >= 0) & missing[unit_of[1]]
    edges = other.edges
    waits = np.flatnonzero((edges.rule == Rule.HOST_SYNC) & _after(other, calls)[edges.target])
    source = _counterparts(unit_of, edges.source[waits], last=True)
    target = _counterparts(unit_of, edges.target[waits], last=False)
    known = np.flatnonzero((source >= 0) & (target >= 0))
    known = known[_possible(graph, source[known], target[known])] if len(known) else known
    if not len(known):
        return graph
    return replace(graph, edges=_more(graph.edges, source[known], target[known], edges.lag_ns[waits][known]))


def _possible(graph: Graph, source: Int64, target: Int64) -> Bool:
    """Waits that the order of the graph allows: not those of an op for what only follows it."""
    edges = graph.edges
    sources, targets = np.concatenate([edges.source, source]), np.concatenate([edges.target, target])
    component = strong_components(len(graph), sources, targets)
    return np.asarray(component[source] != component[target])


def _after(graph: Graph, ops: Bool) -> Bool:
    """The next op of the thread of each of ``ops``."""
    edges = graph.edges
    after = np.zeros(len(graph), np.bool_)
    after[edges.target[ops[edges.source] & (edges.rule == Rule.HOST_ORDER)]] = True
    return after


def _counterparts(unit_of: tuple[Int64, Int64], ops: Int32, *, last: bool) -> Int64:
    """First or last op of the first graph in the unit of each op of the second; -1 for none."""
    mine = np.flatnonzero(unit_of[0] >= 0)
    place = np.full(int(max(unit_of[0].max(initial=0), unit_of[1].max(initial=0))) + 1, -1, np.int64)
    mine = mine if last else mine[::-1]
    place[unit_of[0][mine]] = mine
    unit = unit_of[1][ops]
    return np.where(unit >= 0, place[unit], -1)


def _more(edges: Edges, source: Int64, target: Int64, lag_ns: Int64) -> Edges:
    """Edges with further waits of the host, recorded."""
    extra = len(source)
    return Edges.build(
        len(edges.offsets) - 1,
        np.concatenate([edges.source, source]),
        np.concatenate([edges.target, target]),
        np.concatenate([edges.lag_ns, lag_ns]),
        np.append(edges.from_start, np.zeros(extra, np.bool_)),
        np.append(edges.rule, np.full(extra, Rule.HOST_SYNC, np.int8)),
        np.append(edges.recorded, np.ones(extra, np.bool_)),
    )
