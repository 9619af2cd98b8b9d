"""``--link TIER=FACTOR``: links of a tier have FACTOR times the bandwidth.

A transfer of ``t`` ns becomes ``latency + (t - latency) / FACTOR``. The latency is known where the trace holds a
message of the same group and collective too small for bandwidth to matter; elsewhere the whole transfer scales.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.errors import RefusedError
from replay.graph.parallel_kind import ParallelKind, parallel_kinds
from replay.graph.types import CommTable, Graph, OpKind, Rule
from replay.program.links import ASSUMED_DEVICES_PER_NODE, SMALL_NBYTES
from replay.trace import CollectiveKind
from replay.whatif._edit import check_factor, regraded

LEVEL = "graph"
OPTION = "--link"

_SPANS = ("intra", "inter")
_TIERS = ("all", *_SPANS, *(kind.label for kind in ParallelKind))
_NO_PAYLOAD = (CollectiveKind.NOTIFY, CollectiveKind.BARRIER)


def targets(graph: Graph) -> tuple[str, ...]:
    """Tiers over which ``graph`` moves data."""
    return tuple(tier for tier in _TIERS if any(part.any() for part in _chosen(graph, tier, ASSUMED_DEVICES_PER_NODE)))


def apply(graph: Graph, target: str, factor: float, *, devices_per_node: int = ASSUMED_DEVICES_PER_NODE) -> Graph:
    """Transfers over ``target`` with ``factor`` times the bandwidth.

    ``target`` is ``all``, the kind of parallelism that the group serves (``tp``, ``cp``, ``ep``, ``dp``, ``pp``,
    ``other``), or ``intra``/``inter``: whether the group's ranks share a node of ``devices_per_node`` consecutive
    ranks. Raises :class:`RefusedError` where nothing is known to use that tier, and for a factor of 0 or less.
    """
    check_factor(OPTION, factor, zero=False)
    tier = target.lower()
    if tier not in _TIERS:
        raise RefusedError(f"{OPTION}: {target!r} is no tier; known: {', '.join(_TIERS)}")
    transfers, hops = _chosen(graph, tier, devices_per_node)
    if not transfers.any() and not hops.any():
        present = ", ".join(targets(graph)) or "none, the step holds no communication"
        raise RefusedError(f"{OPTION}: no transfer is known to use tier {tier!r}; tiers of this input: {present}")
    duration = np.where(transfers, _faster(graph.duration_ns, _latency(graph), factor), graph.duration_ns)
    lag = np.where(hops, _faster(graph.edges.lag_ns, np.zeros_like(graph.edges.lag_ns), factor), graph.edges.lag_ns)
    edited = graph.with_durations(duration, regraded(graph, duration != graph.duration_ns))
    return replace(edited, edges=replace(graph.edges, lag_ns=lag))


def _faster(time_ns: Int64, latency_ns: Int64, factor: float) -> Int64:
    moving = np.maximum(time_ns - latency_ns, 0)
    return np.asarray(time_ns - moving + np.rint(moving / factor).astype(np.int64))


def _chosen(graph: Graph, tier: str, devices_per_node: int) -> tuple[Bool, Bool]:
    """Transfer ops and cross-rank P2P edges (whose lag is a transfer) that use ``tier``."""
    comms, edges = graph.comms, graph.edges
    source, target = graph.rank[edges.source], graph.rank[edges.target]
    hops = (edges.rule == Rule.P2P) & (source != target) & (edges.lag_ns > 0)
    hops &= np.isin(graph.kind[edges.target], (OpKind.ARRIVAL, OpKind.TRANSFER), invert=True)
    if tier in _SPANS:
        rows = _spans_nodes(graph, devices_per_node) == (tier == "inter")
        hops &= (source // devices_per_node != target // devices_per_node) == (tier == "inter")
    elif tier == "all":
        rows = np.ones(len(comms), np.bool_)
    else:
        rows = parallel_kinds(graph) == ParallelKind[tier.upper()]
        hops &= tier == ParallelKind.PP.label
    rows = rows & ~np.isin(comms.kind, _NO_PAYLOAD)
    transfers = (graph.kind == OpKind.TRANSFER) & np.append(rows, tier == "all")[graph.comm]
    return np.asarray(transfers & (graph.duration_ns > 0)), np.asarray(hops)


def _spans_nodes(graph: Graph, devices_per_node: int) -> Int64:
    """Per communication row: 1 when its group spans nodes, 0 when it fits in one, -1 when its ranks are not known."""
    spans = [-1] * (len(graph.groups) + 1)  # the last entry takes group = -1
    for index, group in enumerate(graph.groups):
        if group.ranks:
            spans[index] = int(len({rank // devices_per_node for rank in group.ranks}) > 1)
        elif group.size > devices_per_node:
            spans[index] = 1
    return np.array(spans, np.int64)[graph.comms.group]


def _latency(graph: Graph) -> Int64:
    """Per op, the shortest transfer of a latency-bound message of the same group and collective; 0 where unknown."""
    comms: CommTable = graph.comms
    result = np.zeros(len(graph), np.int64)
    ops = np.flatnonzero((graph.kind == OpKind.TRANSFER) & (graph.comm >= 0))
    if not len(ops):
        return result
    row = graph.comm[ops]
    pairs = np.stack([comms.group[row].astype(np.int64), comms.kind[row].astype(np.int64)], axis=1)
    _, place = np.unique(pairs, axis=0, return_inverse=True)
    place = place.reshape(-1)
    small = (comms.nbytes[row] >= 0) & (comms.nbytes[row] <= SMALL_NBYTES)
    unknown = np.iinfo(np.int64).max
    shortest = np.full(int(place.max()) + 1, unknown, np.int64)
    np.minimum.at(shortest, place[small], graph.duration_ns[ops[small]])
    result[ops] = np.where(shortest == unknown, 0, shortest)[place]
    return result
