"""Communication ops of a graph by kind, and the order of ops on their lanes."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.types import Graph
from replay.trace import CollectiveKind

P2P_KINDS = (CollectiveKind.SEND, CollectiveKind.RECV, CollectiveKind.SEND_RECV)


def lane_order(graph: Graph) -> Int64:
    """All ops sorted by lane, then by their measured place on it."""
    return np.lexsort((np.arange(len(graph)), graph.measured_start_ns, graph.lane))


def comm_kind(graph: Graph) -> Int64:
    """CollectiveKind of every op, -1 for what is no communication."""
    kind = np.full(len(graph), -1, np.int64)
    member = graph.comm >= 0
    kind[member] = graph.comms.kind[graph.comm[member]]
    return kind


def comm_group(graph: Graph) -> Int64:
    """Group of every op's collective, -1 for what is no communication or does not say."""
    group = np.full(len(graph), -1, np.int64)
    member = graph.comm >= 0
    group[member] = graph.comms.group[graph.comm[member]]
    return group


def is_p2p(graph: Graph) -> Bool:
    """True for pipeline sends and receives (both halves)."""
    return np.isin(comm_kind(graph), P2P_KINDS)
