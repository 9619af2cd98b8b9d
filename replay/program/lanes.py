"""Lane roles: what a stream or thread does, so that lanes of different ranks, and of another layout, can be matched.

Stream and thread numbers differ between ranks; a communicator's stream is told by the group it serves, the others by
their order of use. Pipeline streams are special: how many there are depends on a stage's neighbours.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from replay.graph.types import Graph, OpKind, Rule
from replay.program.comm_ops import comm_kind, is_p2p
from replay.program.groups import Family
from replay.trace import CollectiveKind

P2P_ROLE = "p2p"


@dataclass(frozen=True, slots=True)
class P2PLanes:
    """How pipeline transfers share streams, as seen in the source."""

    by_direction: bool  # sends and receives on streams of their own
    by_peer: bool  # each neighbour on streams of its own

    def role(self, direction: str, peer: int) -> str:
        """Role of the lane of one transfer."""
        return " ".join([P2P_ROLE, *([direction] if self.by_direction else []), *([str(peer)] if self.by_peer else [])])


def lane_roles(graph: Graph, families: tuple[Family | None, ...]) -> tuple[str, ...]:
    """Role of every lane of the graph; ``families`` is the group family of every row of ``graph.comms``."""
    roles = [""] * len(graph.lanes)
    for rank in np.unique(graph.rank).tolist():
        counts: Counter[str] = Counter()
        for lane in _by_first_use(graph, rank):
            base = _base_role(graph, lane, families)
            roles[lane] = base if base == P2P_ROLE else f"{base} {counts[base]}"
            counts[base] += 1
    return tuple(roles)


def p2p_lanes(graph: Graph) -> P2PLanes:
    """Read off how the source spreads pipeline transfers over streams.

    Where a rank has one neighbour only, neighbours are taken to share streams exactly if directions do.
    """
    kinds = comm_kind(graph)
    sends = set(graph.lane[kinds == CollectiveKind.SEND].tolist())
    receives = set(graph.lane[kinds == CollectiveKind.RECV].tolist())
    by_direction = not sends & receives
    peers: dict[int, set[int]] = {}
    ranks_of: dict[int, set[int]] = {}
    rows = np.flatnonzero(is_p2p(graph))
    for op in rows.tolist():
        ranks_of.setdefault(int(graph.comms.match[graph.comm[op]]), set()).add(int(graph.rank[op]))
    for op in rows.tolist():
        others = ranks_of[int(graph.comms.match[graph.comm[op]])] - {int(graph.rank[op])}
        peers.setdefault(int(graph.lane[op]), set()).update(others)
    shared = any(len(found) > 1 for found in peers.values())
    return P2PLanes(by_direction, by_peer=by_direction and not shared)


def waiting_role(graph: Graph, roles: tuple[str, ...]) -> str:
    """Role of the stream that consumes pipeline receives: where their events are waited for, else the busiest one."""
    edges = graph.edges
    waits = edges.target[(edges.rule == Rule.EVENT) & is_p2p(graph)[edges.source]]
    consumers: Counter[str] = Counter(
        roles[lane] for lane in graph.lane[waits].tolist() if not roles[lane].startswith(P2P_ROLE)
    )
    if consumers:
        return consumers.most_common(1)[0][0]
    compute = graph.kind == OpKind.COMPUTE
    busy: Counter[str] = Counter()
    for lane, duration in zip(graph.lane[compute].tolist(), graph.duration_ns[compute].tolist(), strict=True):
        busy[roles[lane]] += duration
    return busy.most_common(1)[0][0] if busy else ""


def _by_first_use(graph: Graph, rank: int) -> list[int]:
    own = np.flatnonzero(graph.rank == rank)
    order = own[np.lexsort((own, graph.measured_start_ns[own]))]
    return list(dict.fromkeys(graph.lane[order].tolist()))


def _base_role(graph: Graph, lane: int, families: tuple[Family | None, ...]) -> str:
    if not graph.lanes[lane].is_device:
        return "host"
    own = np.flatnonzero(graph.lane == lane)
    rows = graph.comm[own[graph.kind[own] != OpKind.ARRIVAL]]
    members = rows[rows >= 0]
    if 2 * len(members) < len(rows):
        return "compute"
    if is_p2p(graph)[own].mean() > 0.5:
        return P2P_ROLE
    names = Counter(family.name if family else "other" for family in (families[row] for row in members.tolist()))
    return f"comm {names.most_common(1)[0][0]}"
