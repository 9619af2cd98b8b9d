"""Ranks without a device: their transfers become streams, so that a CPU rank reads like any other.

On such a rank the framework's operators are the compute, on the host thread that runs them, and Gloo's work goes on
beside them: each process group's worker threads are streams, so are sends and receives by peer, and the c10d operator
that hands work over is its launch. What a thread waits for is left to the graph's rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from parsers._host_groups import groups_of_workers, own_groups, pipeline_group, worker_sets
from parsers._host_launches import enqueuing_ops
from replay.core.columns import Int64
from replay.trace import DEVICE_KINDS, MISSING, ON_HOST, CollectiveKind, EventKind, Group, Lane, Trace

_PAIRWISE = (CollectiveKind.SEND, CollectiveKind.RECV)


def with_host_streams(trace: Trace) -> Trace:
    """``trace`` with the transfers of ranks without device work moved to streams and joined to their launches."""
    with_device = np.unique(trace.rank[np.isin(trace.kind, DEVICE_KINDS)])
    transfers = np.flatnonzero((trace.comm >= 0) & ~np.isin(trace.rank, with_device))
    named = trace.collectives.group[trace.comm[transfers]] >= 0
    ranks = np.unique(trace.rank[transfers]).tolist()
    for rank in ranks:
        trace = _grouped(trace, transfers[trace.rank[transfers] == rank])
    trace = _agreed(trace, transfers[~named])
    for rank in ranks:
        trace = _of_rank(trace, transfers[trace.rank[transfers] == rank])
    return _sorted(trace) if len(transfers) else trace


def _of_rank(trace: Trace, transfers: Int64) -> Trace:
    launch = enqueuing_ops(trace, transfers)
    kind, correlation, start = trace.kind.copy(), trace.correlation.copy(), trace.start_ns.copy()
    paired = launch >= 0
    kind[transfers] = EventKind.KERNEL
    kind[launch[paired]] = EventKind.RUNTIME
    free = max(int(trace.correlation.max(initial=0)), 0) + 1
    correlation[transfers[paired]] = correlation[launch[paired]] = free + np.arange(int(paired.sum()))
    # a send moves its data inside of its operator, before the row that waits for it begins
    sends = paired & (trace.collectives.kind[trace.comm[transfers]] == CollectiveKind.SEND)
    start[transfers[sends]] = trace.start_ns[launch[sends]]
    duration = trace.dur_ns + trace.start_ns - start
    moved = replace(trace, kind=kind, correlation=correlation, start_ns=start, dur_ns=duration)
    return _on_streams(moved, transfers)


def _grouped(trace: Trace, transfers: Int64) -> Trace:
    """Transfers that name no group get that of their worker threads, or of the pipeline; peers become global ranks."""
    rank, columns = int(trace.rank[transfers[0]]), trace.collectives
    unnamed = transfers[columns.group[trace.comm[transfers]] < 0]
    pairwise = np.isin(columns.kind[trace.comm[unnamed]], _PAIRWISE)
    codes = {group: code for code, group in enumerate(trace.groups)}
    group, peer = columns.group.copy(), columns.peer.copy()
    for lane, found in _of_lanes(trace, rank, unnamed[~pairwise]).items():
        if found is not None:
            own = unnamed[~pairwise & (trace.lane[unnamed] == lane)]
            group[trace.comm[own]] = codes.setdefault(found, len(codes))
    pipeline = pipeline_group(trace, rank)
    between = trace.comm[unnamed[pairwise]]
    if pipeline is not None:
        group[between] = codes[pipeline]
    members = pipeline.ranks if pipeline is not None else tuple(range(max(trace.world_size, 0)))
    peer[between] = [_peer(int(member), members, rank) for member in peer[between]]
    return replace(trace, groups=tuple(codes), collectives=replace(columns, group=group, peer=peer))


def _agreed(trace: Trace, inferred: Int64) -> Trace:
    """Groups found rank by rank, unless members show different collectives of one: then only the members are told."""
    columns = trace.collectives
    inferred = inferred[~np.isin(columns.kind[trace.comm[inferred]], _PAIRWISE)]
    seen: dict[int, dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))  # group → rank → kinds
    for event in inferred.tolist():
        row = int(trace.comm[event])
        seen[int(columns.group[row])][int(trace.rank[event])][int(columns.kind[row])] += 1
    if all(code < 0 or len({*map(_frozen, kinds.values())}) == 1 for code, kinds in seen.items()):
        return trace
    members = {group.ranks for rank in trace.ranks for group in own_groups(trace, rank)}
    alike = Group("", "", next(iter(members)), len(next(iter(members)))) if len(members) == 1 else None
    groups = trace.groups if alike is None or alike in trace.groups else (*trace.groups, alike)
    group = columns.group.copy()
    group[trace.comm[inferred]] = MISSING if alike is None else groups.index(alike)
    return replace(trace, groups=groups, collectives=replace(columns, group=group))


def _frozen(kinds: Counter[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(kinds.items()))


def _of_lanes(trace: Trace, rank: int, transfers: Int64) -> dict[int, Group | None]:
    """Group of every worker thread that carried out ``transfers``."""
    lanes = np.unique(trace.lane[transfers]).tolist()
    sets = worker_sets(trace, lanes, most=len(own_groups(trace, rank)))
    kinds: list[set[int]] = [set() for _ in range(max(sets.values(), default=-1) + 1)]
    for event in transfers.tolist():
        kinds[sets[int(trace.lane[event])]].add(int(trace.collectives.kind[trace.comm[event]]))
    groups = groups_of_workers(trace, rank, kinds)
    return {lane: groups[sets[lane]] for lane in lanes}


def _peer(member: int, members: tuple[int, ...], rank: int) -> int:
    """Global rank of the peer: of its number in the group, else the other one of two."""
    if 0 <= member < len(members):
        return members[member]
    others = [other for other in members if other != rank]
    return others[0] if len(others) == 1 else MISSING


def _on_streams(trace: Trace, transfers: Int64) -> Trace:
    """One stream for each group, and for each direction and peer; as many as ran at once."""
    rank = int(trace.rank[transfers[0]])
    rows = trace.comm[transfers]
    kind, group, peer = (column[rows].tolist() for column in _keys(trace))
    lane, lanes = trace.lane.copy(), list(trace.lanes)
    busy_until: dict[str, list[tuple[int, int]]] = {}  # stream's purpose → (end of its last transfer, lane) of each
    for at, event in enumerate(transfers.tolist()):
        purpose = _purpose(trace, kind[at], group[at], peer[at])
        used = busy_until.setdefault(purpose, [])
        place = next((i for i, (end, _) in enumerate(used) if end <= trace.start_ns[event]), len(used))
        if place == len(used):
            number = len(lanes) - len(trace.lanes)
            lanes.append(Lane(rank, True, f"{purpose} {place}" if place else purpose, ON_HOST, number))
            used.append((0, len(lanes) - 1))
        used[place] = (trace.end_of(event), used[place][1])
        lane[event] = used[place][1]
    return replace(trace, lane=lane, lanes=tuple(lanes))


def _keys(trace: Trace) -> tuple[Int64, Int64, Int64]:
    columns = trace.collectives
    return columns.kind.astype(np.int64), columns.group.astype(np.int64), columns.peer.astype(np.int64)


def _purpose(trace: Trace, kind: int, group: int, peer: int) -> str:
    if kind in _PAIRWISE:
        return f"{CollectiveKind(kind).name.lower()} {peer if peer >= 0 else 'unknown peer'}"
    if group < 0:
        return "transfers"
    return f"transfers of {trace.groups[group].description or trace.groups[group].name}"


def _sorted(trace: Trace) -> Trace:
    """Events in the order that a Trace promises: (rank, start, -duration)."""
    order = np.lexsort((-trace.dur_ns, trace.start_ns, trace.rank))
    return replace(trace, **{name: column[order] for name, column in trace.columns().items()})
