"""R3: collectives matched over ranks, and each member's time split into wait and transfer.

Match: by (group, recorded sequence) where the trace has one, else by (group, kind) in order of start; members that one
rank lacks stay alone. Where the recording itself tells transfer from waiting (planes of HCCL), its word counts. With
all members seen, transfer = end - latest start. With some of them, or some of a number that is not known, transfer is
the lower envelope over bytes of durations of the same kind in this group and its siblings over the whole trace; what a
member spent above it after the last arrival seen is the lateness of peers not seen, kept as a lag after all arrivals
(inferred), which synthesis drops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from replay.core.columns import Bool, Int64
from replay.trace import CollectiveKind, CommEvidence, Trace

_PAIRWISE = (CollectiveKind.SEND, CollectiveKind.RECV)
_COUNTED = ("p2p", "order")  # keys that end in a count
_TO_THE_END = (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER)


@dataclass(frozen=True, slots=True)
class Matched:
    """One row per communication event of the step, on one clock."""

    event: Int64
    match: Int64  # rows of equal value are one collective
    family: Int64  # rows of equal value were matched by their order among each other
    start_ns: Int64
    end_ns: Int64


def match_key(trace: Trace, event: int, counter: dict[Hashable, int]) -> tuple[Hashable, ...]:
    """Key that is equal for all members of one collective; ``counter`` numbers what has no recorded sequence."""
    row = int(trace.comm[event])
    c = trace.collectives
    kind, group = int(c.kind[row]), int(c.group[row])
    rank = int(trace.rank[event])
    if kind in _PAIRWISE:
        peer = int(c.peer[row])
        if peer < 0:  # nothing says who it talks to: it stays alone
            return ("alone", event)
        pair = (rank, peer) if kind == CollectiveKind.SEND else (peer, rank)
        key: tuple[Hashable, ...] = ("p2p", group, pair)
        counter[rank, kind, key] = count = counter.get((rank, kind, key), -1) + 1
        return (*key, count)
    if group >= 0 and c.sequence[row] >= 0:
        return ("sequence", group, int(c.sequence[row]), kind)
    if _is_chain(trace, row):
        return ("alone", event)
    key = ("order", group, kind)
    if _is_pair(trace, row):
        key = ("p2p", group, kind, frozenset((rank, int(c.peer[row]))))
    counter[rank, key] = count = counter.get((rank, key), -1) + 1
    return (*key, count)


def _is_pair(trace: Trace, row: int) -> bool:
    """Whether a fused exchange has one partner, and no count that the whole group shares."""
    c = trace.collectives
    return bool(c.kind[row] == CollectiveKind.SEND_RECV and c.peer[row] >= 0 and c.sequence[row] < 0)


def _is_chain(trace: Trace, row: int) -> bool:
    """Whether a fused exchange, by its own metadata, has several partners in a larger group: each has others, too."""
    c = trace.collectives
    if c.kind[row] != CollectiveKind.SEND_RECV or c.evidence[row] != CommEvidence.KERNEL_ARGS or c.group[row] < 0:
        return False
    group = trace.groups[int(c.group[row])]
    return c.peer[row] < 0 and (len(group.ranks) or group.size) > 2


def match(trace: Trace, events: Int64, offset_ns: dict[int, int]) -> Matched:
    """Match the communication events of one step; ``offset_ns`` aligns the ranks' clocks."""
    events = events[np.lexsort((trace.start_ns[events], trace.rank[events]))]
    counter: dict[Hashable, int] = {}
    ids: dict[tuple[Hashable, ...], int] = {}
    families: dict[tuple[Hashable, ...], int] = {}
    keys = [match_key(trace, int(event), counter) for event in events]
    matches = [ids.setdefault(key, len(ids)) for key in keys]
    counted = [key[:-1] if key[0] in _COUNTED else key for key in keys]
    family = [families.setdefault(key, len(families)) for key in counted]
    offset = np.array([offset_ns.get(int(rank), 0) for rank in trace.rank[events]], np.int64)
    start = trace.start_ns[events] + offset
    end = start + trace.dur_ns[events]
    return Matched(events, np.array(matches, np.int64), np.array(family, np.int64), start, end)


def lost_members(trace: Trace, matched: Matched) -> int:
    """Members missing from families that ranks of the input share by a known group: each should have as many."""
    named = trace.collectives.group[trace.comm[matched.event]] >= 0
    columns = np.stack([matched.family[named], trace.rank[matched.event[named]]], axis=1)
    shares, count = np.unique(columns, axis=0, return_counts=True)
    most = np.zeros(int(matched.family.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, shares[:, 0], count)
    return int((most[shares[:, 0]] - count).sum())


def group_size(trace: Trace, event: int) -> int:
    """Members the collective has: its group's, two for a send or receive, else the world's; -1 unknown."""
    row = int(trace.comm[event])
    if trace.collectives.kind[row] in _PAIRWISE or _is_pair(trace, row):
        return 2
    code = int(trace.collectives.group[row])
    if code >= 0:
        group = trace.groups[code]
        if group.ranks or group.size > 0:
            return len(group.ranks) or group.size
    return trace.world_size


def ordinals(trace: Trace, windows: list[tuple[int, int, int]]) -> Int64:
    """Per event: how many communication events of its name came before it in its step; -1 outside all steps.

    ``windows`` holds (rank, begin ns, end ns) of every step. Steps repeat, so equal ordinals move equal bytes.
    """
    result = np.full(len(trace), -1, np.int64)
    events = np.flatnonzero(trace.comm >= 0)
    for rank, begin, end in windows:
        start = trace.start_ns[events]
        counts: dict[int, int] = {}
        for event in events[(trace.rank[events] == rank) & (start >= begin) & (start < end)]:
            name = int(trace.name[event])
            result[event] = counts[name] = counts.get(name, -1) + 1
    return result


def envelope(trace: Trace, ordinal: Int64) -> dict[tuple[Hashable, ...], int]:
    """Shortest duration (ns) seen per class of communication events, over all steps and ranks."""
    best: dict[tuple[Hashable, ...], int] = {}
    for event in np.flatnonzero(trace.comm >= 0):
        key = transfer_class(trace, int(event), ordinal)
        duration = int(trace.dur_ns[event])
        if duration > 0:
            best[key] = min(best.get(key, duration), duration)
    return _bounded_by_larger(best)


def _bounded_by_larger(best: dict[tuple[Hashable, ...], int]) -> dict[tuple[Hashable, ...], int]:
    """``best`` with no class above one that moves more bytes the same way, where a member must be there to the end."""
    sizes: dict[tuple[Hashable, Hashable], list[int]] = defaultdict(list)
    for family, kind, *rest in best:
        match rest:
            case [int(nbytes)] if kind in _TO_THE_END:  # names and ordinals stand in for bytes that are not known
                sizes[family, kind].append(nbytes)
    for (family, kind), own in sizes.items():
        own.sort(reverse=True)
        shortest = accumulate((best[family, kind, nbytes] for nbytes in own), min)
        best |= {(family, kind, nbytes): time for nbytes, time in zip(own, shortest, strict=True)}
    return best


def transfer_class(trace: Trace, event: int, ordinal: Int64) -> tuple[Hashable, ...]:
    """Events that move the same bytes the same way; without bytes, name and ordinal in the step stand in for them.

    Groups of one description and size (the pipelines of all data-parallel ranks) count as one: a member that waited
    every time for a peer outside of the input shows its transfer in its siblings.
    """
    row = int(trace.comm[event])
    c = trace.collectives
    nbytes, code = int(c.nbytes[row]), int(c.group[row])
    group = trace.groups[code] if code >= 0 else None
    described = group is not None and group.description not in ("", "undefined")
    family: Hashable = (group.description, len(group.ranks) or group.size) if group and described else code
    if nbytes >= 0:
        return (family, int(c.kind[row]), nbytes)
    return (family, int(c.kind[row]), trace.name_of(event), int(ordinal[event]))


@dataclass(frozen=True, slots=True)
class Split:
    """Per row of Matched: its transfer, R3's bracket of it, and the peers' lateness (0 when the members tell)."""

    transfer_ns: Int64
    low_ns: Int64
    high_ns: Int64
    lateness_ns: Int64
    rendezvous: Bool  # False: ran on without its peers (eager)
    seen: Int64
    size: Int64


def split(trace: Trace, matched: Matched, ordinal: Int64) -> Split:
    """Wait against transfer for every member; ``ordinal`` is from :func:`ordinals`."""
    n = len(matched.event)
    members: dict[int, list[int]] = defaultdict(list)
    for i, key in enumerate(matched.match):
        members[int(key)].append(i)
    best = envelope(trace, ordinal)
    recorded = trace.collectives.recorded_transfer_ns[trace.comm[matched.event]]
    duration = matched.end_ns - matched.start_ns
    transfer, low, high, lateness = duration.copy(), duration.copy(), duration.copy(), np.zeros(n, np.int64)
    rendezvous = np.ones(n, np.bool_)
    seen, size = np.ones(n, np.int64), np.full(n, -1, np.int64)
    for rows in members.values():
        at = np.array(rows)
        latest = int(matched.start_ns[at].max())
        seen[at] = len(rows)
        for i in rows:
            event = int(matched.event[i])
            size[i] = group_size(trace, event)
            rest = int(matched.end_ns[i]) - latest if len(rows) > 1 else int(duration[i])
            if recorded[i] >= 0:
                rendezvous[i] = rest > 0
                transfer[i] = low[i] = high[i] = min(int(recorded[i]), int(duration[i]))
                lateness[i] = max((rest if rest > 0 else int(duration[i])) - int(transfer[i]), 0)
                continue
            if len(rows) > 1 and len(rows) >= size[i] > 0:
                rendezvous[i] = matched.end_ns[i] > latest
                transfer[i] = low[i] = matched.end_ns[i] - latest if rendezvous[i] else duration[i]
                continue
            shortest = min(best.get(transfer_class(trace, event, ordinal), int(duration[i])), int(duration[i]))
            low[i] = min(shortest, max(rest, 0))
            transfer[i] = low[i]
            lateness[i] = max(rest - int(transfer[i]), 0)
    return Split(transfer, low, np.maximum(high, low), lateness, rendezvous, seen, size)
