"""Puts the rows of all ranks together: one time axis, one set of tables, sorted, with collectives and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from parsers._collectives import find_collectives
from parsers._comm_table import CommTable
from parsers._coverage import coverage, unrecognised_communication
from parsers._host_streams import with_host_streams
from parsers._rows import CommInfo, Rows
from parsers._times import Times, common_times
from replay.core.columns import Int32, Int64, Interner
from replay.trace import MISSING, RECORDED, Group, Health, Lane, Trace

_CARRIED = (
    "correlation", "external_id", "sequence", "stream", "wait_on_record", "wait_on_stream", "nbytes", "graph_node",
)  # fmt: skip


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
    times = common_times([p.rows for p in parts], [p.base_ns for p in parts])
    rank = np.repeat(np.array([p.rank for p in parts], dtype=np.int32), [len(p.rows) for p in parts])
    order = np.lexsort((-times.dur_ns, times.start_ns, rank))
    order = order[times.usable[order]]
    table = _table(parts, times, rank, order)
    found = find_collectives(table)
    warnings = unrecognised_communication(table, found.comm)
    notes = [times.health, coverage(table), Health(inferred=found.inferred, warnings=warnings)]
    trace = Trace(
        start_ns=table.start_ns,
        dur_ns=table.dur_ns,
        rank=table.rank,
        lane=table.lane.astype(np.int32),
        name=table.name.astype(np.int32),
        kind=table.kind,
        **{column: _column(parts, column)[order] for column in _CARRIED},
        comm=found.comm,
        shape=table.shape.astype(np.int32),
        dtype=table.dtype.astype(np.int32),
        names=table.names,
        shapes=table.shapes,
        dtypes=table.dtypes,
        lanes=_merge_lanes(parts)[0],
        groups=found.groups,
        collectives=found.collectives,
        ranks=tuple(sorted({part.rank for part in parts})),
        world_size=max(part.world_size for part in parts),
        device=next((part.device for part in parts if part.device), ""),
        epoch_ns=times.epoch_ns,
        format=format_name,
        files=tuple(part.file for part in parts),
        health=reduce(Health.merged, [*(part.health for part in parts), *notes]),
        metadata=parts[0].metadata,
        details=None,
        step_table=(),
        summaries=(),
        memory=(),
        not_replayable="",
        layout={},
        world_evidence=RECORDED,
    )
    return with_host_streams(trace)


def _table(parts: Sequence[RankRows], times: Times, rank: Int32, order: Int64) -> CommTable:
    names, name = _merge_codes(parts, "name", "names")
    shapes, shape = _merge_codes(parts, "shape", "shapes")
    dtypes, dtype = _merge_codes(parts, "dtype", "dtypes")
    return CommTable(
        kind=_column(parts, "kind")[order].astype(np.int8),
        name=name[order],
        names=names,
        rank=rank[order],
        lane=_merge_lanes(parts)[1][order],
        start_ns=times.start_ns[order],
        dur_ns=times.dur_ns[order],
        correlation=_column(parts, "correlation")[order],
        shape=shape[order],
        dtype=dtype[order],
        shapes=shapes,
        dtypes=dtypes,
        comms=_merge_comms(parts, order),
        groups=tuple(dict.fromkeys(group for part in parts for group in part.groups)),
    )


def _column(parts: Sequence[RankRows], name: str) -> Int64:
    column: Int64 = np.concatenate([getattr(part.rows, name) for part in parts])
    return column


def _merge_codes(parts: Sequence[RankRows], column: str, table: str) -> tuple[tuple[str, ...], Int64]:
    """One table for all ranks and the codes into it; -1 stays -1."""
    interner = Interner()
    merged = []
    for part in parts:
        lookup = np.array([*map(interner.code, getattr(part.rows, table)), MISSING], dtype=np.int64)
        merged.append(lookup[getattr(part.rows, column)])
    return interner.names, np.concatenate(merged)


def _merge_lanes(parts: Sequence[RankRows]) -> tuple[tuple[Lane, ...], Int64]:
    """Lanes of all ranks, threads before streams, and the codes into them."""
    own = [[replace(lane, rank=part.rank) for lane in part.rows.lanes] for part in parts]
    lanes = sorted({lane for part in own for lane in part}, key=_lane_order)
    code = {lane: at for at, lane in enumerate(lanes)}
    merged = []
    for part, of_part in zip(parts, own, strict=True):
        lookup = np.array([*(code[lane] for lane in of_part), MISSING], dtype=np.int64)
        merged.append(lookup[part.rows.lane])
    return tuple(lanes), np.concatenate(merged)


def _lane_order(lane: Lane) -> tuple[int | str, ...]:
    return (lane.rank, lane.is_device, lane.device, lane.stream, len(lane.pid), lane.pid, len(lane.tid), lane.tid)


def _merge_comms(parts: Sequence[RankRows], order: Int64) -> dict[int, CommInfo]:
    """Recorded communication metadata by row of the sorted trace."""
    place = np.full(sum(len(part.rows) for part in parts), MISSING, dtype=np.int64)
    place[order] = np.arange(len(order))
    merged: dict[int, CommInfo] = {}
    first = 0
    for part in parts:
        for row, info in part.rows.comms.items():
            at = int(place[first + row])
            if at != MISSING:
                merged[at] = info
        first += len(part.rows)
    return merged
