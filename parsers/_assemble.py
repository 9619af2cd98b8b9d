"""Puts the rows of all ranks together: one time axis, one set of tables, sorted, with collectives and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from parsers._collectives import CommTable, find_collectives
from parsers._rows import CommInfo, Rows
from replay.core.columns import Bool, Int64, Interner
from replay.trace import MISSING, Group, Health, Lane, Trace

ABSOLUTE_NS = 10**17  # 1973; a smaller clock does not count from 1970


@dataclass(frozen=True, slots=True)
class RankRows:
    """Rows of one file with the facts its header tells."""

    rank: int
    rows: Rows
    file: str
    health: Health
    base_ns: int = 0
    world_size: int = MISSING
    groups: tuple[Group, ...] = ()
    device: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


def assemble(parts: Sequence[RankRows], format_name: str) -> Trace:
    """A :class:`Trace` of all ranks; events sorted by (rank, start, -duration)."""
    starts = [part.rows.start_ns + part.base_ns for part in parts]
    epoch, warnings = _epoch(parts, starts)
    start = np.concatenate(starts) - epoch
    rank = np.repeat(np.array([p.rank for p in parts], dtype=np.int32), [len(s) for s in starts])
    dur = _column(parts, "dur_ns")
    clipped: dict[str, int] = {}
    usable = _fix_negative(start, dur, clipped)
    order = np.lexsort((-dur, start, rank))
    order = order[usable[order]]
    names, name = _merge_codes(parts, "name", "names")
    shapes, shape = _merge_codes(parts, "shape", "shapes")
    dtypes, dtype = _merge_codes(parts, "dtype", "dtypes")
    lanes, lane = _merge_lanes(parts)
    columns = {
        column: _column(parts, column)[order]
        for column in (
            "correlation", "external_id", "sequence", "stream", "wait_on_record", "wait_on_stream", "nbytes",
            "graph_node",
        )
    }  # fmt: skip
    kind = _column(parts, "kind")[order].astype(np.int8)
    comms = _merge_comms(parts, order)
    table = CommTable(
        kind=kind,
        name=name[order],
        names=names,
        rank=rank[order],
        lane=lane[order],
        start_ns=start[order],
        dur_ns=dur[order],
        correlation=columns["correlation"],
        shape=shape[order],
        dtype=dtype[order],
        shapes=shapes,
        dtypes=dtypes,
        comms=comms,
        groups=_known_groups(parts),
    )
    found = find_collectives(table)
    health = Health()
    for part in parts:
        health = health.merged(part.health)
    dropped_negative = int((~usable).sum())
    health = health.merged(
        Health(
            dropped={"end before the start of the file": dropped_negative} if dropped_negative else {},
            clipped=clipped,
            warnings=tuple(warnings),
        )
    ).merged(found.health)
    return Trace(
        start_ns=start[order],
        dur_ns=dur[order],
        rank=rank[order],
        lane=lane[order].astype(np.int32),
        name=name[order].astype(np.int32),
        kind=kind,
        **columns,
        comm=found.comm,
        shape=shape[order].astype(np.int32),
        dtype=dtype[order].astype(np.int32),
        names=names,
        shapes=shapes,
        dtypes=dtypes,
        lanes=lanes,
        groups=found.groups,
        collectives=found.collectives,
        ranks=tuple(sorted({part.rank for part in parts})),
        world_size=max(part.world_size for part in parts),
        device=next((part.device for part in parts if part.device), ""),
        epoch_ns=epoch,
        format=format_name,
        files=tuple(part.file for part in parts),
        health=health,
        metadata=parts[0].metadata,
    )


def _epoch(parts: Sequence[RankRows], starts: Sequence[Int64]) -> tuple[int, list[str]]:
    firsts = [int(s.min()) for s in starts if len(s)]
    absolute = [first > ABSOLUTE_NS for first in firsts]
    if all(absolute):
        return min(firsts), []
    if any(absolute):
        return 0, ["some files have absolute times and others do not; their ranks cannot be put on one clock"]
    return 0, []


def _fix_negative(start: Int64, dur: Int64, clipped: dict[str, int]) -> Bool:
    """Negative durations: those that end before everything began are lost ends, the others are rounding."""
    negative = dur < 0
    lost = negative & (start + dur < (start.min() if len(start) else 0))
    rounded = negative & ~lost
    if rounded.any():
        clipped["negative duration set to 0"] = int(rounded.sum())
    dur[negative] = 0
    return ~lost


def _column(parts: Sequence[RankRows], name: str) -> Int64:
    column: Int64 = np.concatenate([getattr(part.rows, name) for part in parts])
    return column


def _merge_codes(parts: Sequence[RankRows], column: str, table: str) -> tuple[tuple[str, ...], Int64]:
    """One table for all ranks and the codes into it; -1 stays -1."""
    interner = Interner()
    merged = []
    for part in parts:
        lookup = np.array([interner.code(text) for text in getattr(part.rows, table)] + [MISSING], dtype=np.int64)
        merged.append(lookup[getattr(part.rows, column)])
    return interner.names, np.concatenate(merged)


def _merge_lanes(parts: Sequence[RankRows]) -> tuple[tuple[Lane, ...], Int64]:
    codes: dict[Lane, int] = {}
    merged = []
    for part in parts:
        own = [replace(lane, rank=part.rank) for lane in part.rows.lanes]
        lookup = np.array([codes.setdefault(lane, len(codes)) for lane in own], dtype=np.int64)
        merged.append(lookup[part.rows.lane] if own else part.rows.lane)
    return tuple(codes), np.concatenate(merged)


def _merge_comms(parts: Sequence[RankRows], order: Int64) -> dict[int, CommInfo]:
    """Recorded communication metadata by row of the sorted trace."""
    place = np.full(int(sum(len(part.rows.start_ns) for part in parts)), -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    merged: dict[int, CommInfo] = {}
    first = 0
    for part in parts:
        for row, info in part.rows.comms.items():
            at = int(place[first + row])
            if at >= 0:
                merged[at] = info
        first += len(part.rows.start_ns)
    return merged


def _known_groups(parts: Sequence[RankRows]) -> tuple[Group, ...]:
    groups: dict[Group, None] = {}
    for part in parts:
        groups.update(dict.fromkeys(part.groups))
    return tuple(groups)
