"""``--link TIER=FACTOR``: links of a tier have FACTOR times the bandwidth.

A transfer of ``t`` ns becomes ``latency + (t - latency) / FACTOR``. The latency is known where the trace holds a
message of the same group and collective too small for bandwidth to matter; elsewhere the whole transfer scales. Where
the profiler recorded over which links a collective moved its bytes (Ascend: HCCS, SIO, RDMA), a kind of link is a tier
too, and of a collective that used several the part scales that its share of the link time says. A kernel that computes
as well gains nothing from faster links and loses all of its time's share on slower ones: its longer part is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from replay.core.columns import Bool, Float64, Int64
from replay.core.errors import RefusedError
from replay.graph.link_shares import BETWEEN_NODES
from replay.graph.parallel_kind import ParallelKind, parallel_kinds
from replay.graph.types import CommTable, Graph, OpKind, Rule
from replay.program.fused import is_fused
from replay.program.links import ASSUMED_DEVICES_PER_NODE, SMALL_NBYTES
from replay.trace import CollectiveKind
from replay.whatif._edit import check_factor, regraded

LEVEL = "graph"
OPTION = "--link"

_SPANS = ("intra", "inter")
KINDS = tuple(kind.label for kind in ParallelKind)  # of parallelism; together they hold every transfer once
_TIERS = ("all", *_SPANS, *KINDS)
_NO_PAYLOAD = (CollectiveKind.NOTIFY, CollectiveKind.BARRIER)


def targets(graph: Graph) -> tuple[str, ...]:
    """Tiers over which ``graph`` moves data."""
    return tuple(
        tier for tier in _known(graph) if any(part.any() for part in _chosen(graph, tier, ASSUMED_DEVICES_PER_NODE))
    )


def apply(graph: Graph, target: str, factor: float, *, devices_per_node: int = ASSUMED_DEVICES_PER_NODE) -> Graph:
    """Transfers over ``target`` with ``factor`` times the bandwidth.

    ``target`` is ``all``, the kind of parallelism that the group serves (``tp``, ``cp``, ``ep``, ``dp``, ``pp``,
    ``other``), a kind of link that the profiler names, or ``intra``/``inter``: as recorded links say, else whether the
    group's ranks share a node of ``devices_per_node`` consecutive ranks. Raises :class:`RefusedError` where nothing is
    known to use that tier, and for a factor of 0 or less.
    """
    check_factor(OPTION, factor, zero=False)
    tier = target.lower()
    if tier not in _known(graph):
        raise RefusedError(f"{OPTION}: {target!r} is no tier; tiers of this input: {_present(graph)}")
    share, hops = _chosen(graph, tier, devices_per_node)
    if not share.any() and not hops.any():
        raise RefusedError(
            f"{OPTION}: no transfer is known to use tier {tier!r}; tiers of this input: {_present(graph)}"
        )
    if factor > 1:
        share = np.where(is_fused(graph), 0.0, share)
    moving = np.maximum(graph.duration_ns - _latency(graph), 0) * share
    duration = graph.duration_ns + _change(moving, factor)
    lag = graph.edges.lag_ns + _change(np.where(hops, graph.edges.lag_ns, 0), factor)
    edited = graph.with_durations(duration, regraded(graph, duration != graph.duration_ns))
    return replace(edited, edges=replace(graph.edges, lag_ns=lag))


def held(graph: Graph, target: str, factor: float) -> int:
    """Kernels that use ``target`` and that ``factor`` leaves as they are, since they compute as well."""
    tier = target.lower()
    if factor <= 1 or tier not in _known(graph):
        return 0
    return int((is_fused(graph) & (_chosen(graph, tier, ASSUMED_DEVICES_PER_NODE)[0] > 0)).sum())


def _change(moving_ns: Float64, factor: float) -> Int64:
    """What time is added to bytes that move for ``moving_ns`` when they move ``factor`` times as fast, whole ns."""
    return np.asarray(np.rint(moving_ns / factor).astype(np.int64) - np.rint(moving_ns).astype(np.int64))


def _present(graph: Graph) -> str:
    return ", ".join(targets(graph)) or "none, the step holds no communication"


def _known(graph: Graph) -> tuple[str, ...]:
    return (*_TIERS, *(name.lower() for name in graph.comms.links))


def _chosen(graph: Graph, tier: str, devices_per_node: int) -> tuple[Float64, Bool]:
    """Share of every op's transfer that uses ``tier``, and the cross-rank P2P edges (whose lag is a transfer)."""
    comms, edges = graph.comms, graph.edges
    source, target = graph.rank[edges.source], graph.rank[edges.target]
    hops = (edges.rule == Rule.P2P) & (source != target) & (edges.lag_ns > 0)
    hops &= np.isin(graph.kind[edges.target], (OpKind.ARRIVAL, OpKind.TRANSFER), invert=True)
    if tier in _SPANS:
        rows = _share_between_nodes(graph, devices_per_node)
        rows = np.where(np.isnan(rows), 0.0, rows if tier == "inter" else 1.0 - rows)
        hops &= (source // devices_per_node != target // devices_per_node) == (tier == "inter")
    elif tier == "all":
        rows = np.ones(len(comms))
    elif tier in KINDS:
        rows = (parallel_kinds(graph) == ParallelKind[tier.upper()]).astype(np.float64)
        hops &= tier == ParallelKind.PP.label
    else:
        rows = _share_of_links(graph, lambda name: name.lower() == tier)
        hops[:] = False
    rows = np.where(np.isin(comms.kind, _NO_PAYLOAD), 0.0, rows)
    share = np.where(graph.kind == OpKind.TRANSFER, np.append(rows, float(tier == "all"))[graph.comm], 0.0)
    return np.where(graph.duration_ns > 0, share, 0.0), np.asarray(hops)


def _share_of_links(graph: Graph, wanted: Callable[[str], bool]) -> Float64:
    """Per communication row, the share of its link time on links whose kind is ``wanted``."""
    shares = [share for name, share in graph.comms.links.items() if wanted(name)]
    return np.asarray(np.sum(shares, axis=0)) if shares else np.zeros(len(graph.comms))


def _share_between_nodes(graph: Graph, devices_per_node: int) -> Float64:
    """Per communication row, the share of its transfer that crosses nodes, NaN where nothing tells.

    As recorded links say; else 1 for a group that spans nodes and 0 for one that fits in one.
    """
    spans = [float("nan")] * (len(graph.groups) + 1)  # the last entry takes group = -1
    for index, group in enumerate(graph.groups):
        if group.ranks:
            spans[index] = float(len({rank // devices_per_node for rank in group.ranks}) > 1)
        elif group.size > devices_per_node:
            spans[index] = 1.0
    recorded = _share_of_links(graph, lambda _: True) > 0
    outside = _share_of_links(graph, lambda name: name.upper().startswith(BETWEEN_NODES))
    return np.where(recorded, outside, np.array(spans)[graph.comms.group])


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
