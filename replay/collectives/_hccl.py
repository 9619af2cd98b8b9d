"""HCCL over several servers: a full mesh inside each, and between them whatever takes least for the size and servers.

Inside a server every device has a link to each other one: a reduce-scatter leaves each with S / d, ranks of equal place
on all servers exchange that part, an all-gather spreads the result (HCCL user guide, "Algorithm Overview"). Between
servers HCCL adapts to size and number of servers among ring, recursive halving-doubling and the nonuniform
hierarchical ring (logarithmic steps, the bytes of a ring, any number of servers); its thresholds are not published, so
the least modelled time stands for its choice.
"""

from __future__ import annotations

import numpy as np

from replay.collectives import (
    halving_doubling,
    mesh_exchange,
    recursive_doubling,
    ring_all_gather,
    ring_all_reduce,
    tree_all_reduce,
)
from replay.collectives._link import Link, Sizes
from replay.collectives._two_tiers import Nodes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

BETWEEN_SERVERS = {
    CollectiveKind.ALL_REDUCE: (ring_all_reduce, halving_doubling, tree_all_reduce),  # the last: steps of an NHR
    CollectiveKind.ALL_GATHER: (ring_all_gather, recursive_doubling),
    CollectiveKind.REDUCE_SCATTER: (ring_all_gather, recursive_doubling),
}
"""What HCCL chooses from between servers, by collective."""


def between_servers_ns(kind: CollectiveKind, nbytes: Sizes, servers: int, link: Link) -> Float64:
    """min over HCCL's algorithms of their time for ``nbytes`` over ``servers`` ranks."""
    return np.asarray(np.min([a.time_ns(nbytes, servers, link) for a in BETWEEN_SERVERS[kind]], axis=0))


def time_ns(kind: CollectiveKind, nbytes: Sizes, nodes: Nodes, pair: Link, inter: Link) -> Float64:
    """Mesh steps of S inside each server plus the exchange of S / d between servers (``inter``: of one device).

    An all-reduce takes two mesh steps (reduce-scatter, all-gather), the others one.
    """
    size = np.asarray(nbytes, np.float64)
    mesh_steps = 2.0 if kind is CollectiveKind.ALL_REDUCE else 1.0
    inside = mesh_steps * mesh_exchange.time_ns(size, nodes.ranks_per_node, pair)
    return inside + between_servers_ns(kind, size / nodes.ranks_per_node, nodes.nodes, inter)
