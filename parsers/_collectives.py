"""Finds the communication events of a trace and what is known of each.

A device kernel is described by its own args, else by the host range around its launch, else by its name. On ranks
without device work the host ranges that move data (gloo) are the events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parsers._coalesced import buffer_nbytes, coalesced_infos
from parsers._comm_groups import Groups
from parsers._comm_names import is_device_enqueue, is_host_transfer, is_transfer, kind_of_kernel, kind_of_name
from parsers._comm_ranges import comm_ranges, completed, rows_of
from parsers._comm_table import CommTable
from parsers._nesting import innermost
from parsers._rows import CommInfo
from replay.core.columns import Bool, Int32, Int64, Ragged
from replay.trace import MISSING, CollectiveKind, Collectives, CommEvidence, EventKind, Group

_NO_INFO = CommInfo("")
_INFERRED = {
    CommEvidence.PARENT_OP: "collectives described by the op around their launch",
    CommEvidence.NAME: "collectives known by name only",
}


@dataclass(frozen=True, slots=True)
class Found:
    """Collectives of a trace, the column that points to them, and how they were inferred."""

    comm: Int32
    collectives: Collectives
    groups: tuple[Group, ...]
    inferred: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Row:
    event: int
    kind: CollectiveKind
    info: CommInfo
    evidence: CommEvidence


def find_collectives(table: CommTable) -> Found:
    """Communication of all ranks, in the order of the events."""
    ranges = comm_ranges(table)
    rows = _device_rows(table, ranges) + _host_rows(table, ranges)
    rows.sort(key=lambda row: row.event)
    comm = np.full(len(table.kind), MISSING, dtype=np.int32)
    comm[[row.event for row in rows]] = np.arange(len(rows), dtype=np.int32)
    inferred = Counter(_INFERRED[row.evidence] for row in rows if row.evidence in _INFERRED)
    groups = Groups(table.groups)
    collectives = _pack(table, rows, groups)
    return Found(comm, collectives, groups.all, dict(inferred))


def _device_rows(table: CommTable, ranges: dict[int, CommInfo]) -> list[_Row]:
    is_kernel = table.kind == EventKind.KERNEL
    kinds = {code: kind_of_kernel(table.names[code]) for code in np.unique(table.name[is_kernel]).tolist()}
    by_name = np.array([kinds.get(code) is not None for code in range(len(table.names))], dtype=np.bool_)
    own = np.zeros(len(table.kind), dtype=np.bool_)
    own[list(table.comms)] = True
    events = np.flatnonzero(is_kernel & (own | by_name[table.name]))
    launches = table.launches_of(events)
    parents = np.full(len(events), MISSING, dtype=np.int64)
    launched = launches >= 0
    parents[launched] = innermost(table.lane, table.start_ns, table.dur_ns, rows_of(ranges), launches[launched])
    coalesced = coalesced_infos(table, ranges, launches, parents)
    rows = []
    for event, launch, parent in zip(events.tolist(), launches.tolist(), parents.tolist(), strict=True):
        around = ranges.get(parent) or coalesced.get(launch)
        rows.append(_describe(event, table.comms.get(event), around, kinds[int(table.name[event])]))
    return rows


def _describe(event: int, own: CommInfo | None, around: CommInfo | None, named: CollectiveKind | None) -> _Row:
    """The row of one kernel. A kind that metadata leaves open is taken from the kernel's name."""
    if own is not None and is_transfer(own.name):
        info, evidence = (completed(own, around) if around is not None else own), CommEvidence.KERNEL_ARGS
    elif around is not None:
        info, evidence = around, CommEvidence.PARENT_OP
    else:
        info, evidence = _NO_INFO, CommEvidence.NAME
    kind = kind_of_name(info.name) or named or CollectiveKind.UNKNOWN
    return _Row(event, kind, info, evidence)


def _host_rows(table: CommTable, ranges: dict[int, CommInfo]) -> list[_Row]:
    """Ranges that move data by themselves, on ranks without device work.

    A gloo range is the transfer; where no backend's range is recorded it is the outermost c10d range. Ranges that only
    enqueue a device collective are not transfers.
    """
    with_device = np.unique(table.rank[table.is_device])
    rows = rows_of(ranges)
    rows = rows[~np.isin(table.rank[rows], with_device)]
    is_backend = _named(table, rows, is_host_transfer)
    enqueues = np.unique(table.rank[rows[_named(table, rows, is_device_enqueue)]])
    has_backend = np.isin(table.rank[rows], np.unique(table.rank[rows[is_backend]]))
    outermost = innermost(table.lane, table.start_ns, table.dur_ns, rows, rows, strictly=True) < 0
    kept = np.where(has_backend, is_backend, outermost & ~np.isin(table.rank[rows], enqueues))
    found = []
    for event in rows[kept].tolist():
        evidence = CommEvidence.KERNEL_ARGS if event in table.comms else CommEvidence.PARENT_OP
        found.append(_Row(event, kind_of_name(ranges[event].name), ranges[event], evidence))
    return found


def _named(table: CommTable, rows: Int64, test: Callable[[str], bool]) -> Bool:
    return np.array([test(table.name_of(row)) for row in rows.tolist()], dtype=np.bool_)


def _pack(table: CommTable, rows: list[_Row], groups: Groups) -> Collectives:
    codes = [groups.code(int(table.rank[row.event]), row.info) for row in rows]
    return Collectives(
        kind=np.array([row.kind for row in rows], dtype=np.int8),
        group=np.array(codes, dtype=np.int32),
        sequence=np.array([row.info.sequence for row in rows], dtype=np.int64),
        in_nbytes=np.array([buffer_nbytes(row.info, "in") for row in rows], dtype=np.int64),
        out_nbytes=np.array([buffer_nbytes(row.info, "out") for row in rows], dtype=np.int64),
        peer=np.array([groups.peer(c, row.info) for c, row in zip(codes, rows, strict=True)], dtype=np.int32),
        evidence=np.array([row.evidence for row in rows], dtype=np.int8),
        dtype=tuple(row.info.dtype for row in rows),
        in_split=Ragged.from_rows([row.info.in_split for row in rows]),
        out_split=Ragged.from_rows([row.info.out_split for row in rows]),
        transfer_ns=np.array([row.info.transfer_ns for row in rows], dtype=np.int64),
        algorithm=tuple(row.info.algorithm for row in rows),
        links=tuple(row.info.links for row in rows),
    )
