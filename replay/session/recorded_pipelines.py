"""Pipeline stages from who sends to whom, where groups have no names that tell."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from replay.graph.parallel_kind import ParallelKind, kind_of_group
from replay.trace import CollectiveKind, Trace


def recorded_stages(trace: Trace) -> int | None:
    """Length of the pipelines that sends and receives link ranks to; ``None`` where they link none.

    Pipelines are of one length, their ranks lie equally far apart (stages are outermost in the rank order), and each
    neighbour is sent to as well as received from: a ring of context parallelism sends one way round.
    """
    ways = _ways(trace)
    linked = defaultdict(set)
    for rank, peer in ways:
        linked[rank].add(peer)
        linked[peer].add(rank)
    pipelines = {_reached(linked, rank) for rank in linked}
    sizes = {len(pipeline) for pipeline in pipelines}
    world = max(trace.world_size, len(trace.ranks))
    if len(sizes) != 1 or world % (size := sizes.pop()) or any((peer, rank) not in ways for rank, peer in ways):
        return None
    distance = world // size
    apart = (pipeline == tuple(range(pipeline[0] % distance, world, distance)) for pipeline in pipelines)
    return size if all(apart) else None


def _ways(trace: Trace) -> set[tuple[int, int]]:
    """(sender, receiver) of all transfers but those of groups that are named for something else."""
    named = [kind_of_group(group) for group in trace.groups]
    other = np.array([kind not in (None, ParallelKind.PP) for kind in named] + [False], np.bool_)
    comms = trace.collectives
    events = np.flatnonzero(trace.comm >= 0)
    rows = trace.comm[events]
    known = (comms.peer[rows] >= 0) & ~other[comms.group[rows]]
    sends, receives = (known & (comms.kind[rows] == kind) for kind in (CollectiveKind.SEND, CollectiveKind.RECV))
    rank, peer = trace.rank[events], comms.peer[rows]
    sent = zip(rank[sends].tolist(), peer[sends].tolist(), strict=True)
    received = zip(peer[receives].tolist(), rank[receives].tolist(), strict=True)
    return {(a, b) for a, b in (*sent, *received) if a != b}


def _reached(linked: dict[int, set[int]], start: int) -> tuple[int, ...]:
    """All ranks that transfers connect to ``start``, ascending."""
    found, new = {start}, {start}
    while new:
        new = set[int]().union(*(linked[rank] for rank in new if rank in linked)) - found
        found |= new
    return tuple(sorted(found))
