"""Metadata of coalesced collectives: one kernel launched at the group's end, after the ops it stands for.

The kernel carries no metadata, and its launch lies outside of every ``record_param_comms`` (chakra issue 178). The ops
it stands for are those of the same thread since the previous communication launch that have no launch of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parsers._comm_names import dtype_nbytes, kind_of_name
from parsers._comm_ranges import PARAM_COMMS
from parsers._comm_table import CommTable
from parsers._rows import CommInfo
from replay.core.columns import Int64
from replay.trace import MISSING, CollectiveKind

_MOST_BYTES = 1 << 50
_P2P = frozenset({CollectiveKind.SEND, CollectiveKind.RECV})


def coalesced_infos(
    table: CommTable, ranges: dict[int, CommInfo], launches: Int64, parents: Int64
) -> dict[int, CommInfo]:
    """Launch row → metadata of the ops coalesced into it, for ``launches`` without a parent range (-1)."""
    claimed = set(parents[parents >= 0].tolist())
    free = [row for row in sorted(ranges) if row not in claimed and table.name_of(row) == PARAM_COMMS]
    infos: dict[int, CommInfo] = {}
    by_lane: dict[int, list[tuple[int, int, int]]] = {}
    for row in free:
        by_lane.setdefault(int(table.lane[row]), []).append((int(table.start_ns[row]), 0, row))
    for launch, parent in zip(launches.tolist(), parents.tolist(), strict=True):
        if launch >= 0:
            kind = 1 if parent < 0 else 2
            by_lane.setdefault(int(table.lane[launch]), []).append((int(table.start_ns[launch]), kind, launch))
    for events in by_lane.values():
        pending: list[CommInfo] = []
        for _, what, row in sorted(events):
            if what == 0:
                pending.append(ranges[row])
            else:
                if what == 1 and pending:
                    infos[row] = combined(pending)
                pending = []
    return infos


def combined(ops: list[CommInfo]) -> CommInfo:
    """One description of several ops launched as one: bytes add up; sends and receives become one exchange."""
    first = ops[0]
    if len(ops) == 1:
        return first
    kinds = {kind_of_name(op.name) for op in ops}
    name = first.name if len(kinds) == 1 else "sendrecv" if kinds <= _P2P else "coalesced"
    same_group = len({(op.group, op.ranks, op.group_size) for op in ops}) == 1
    peers = {op.peer for op in ops}
    return replace(
        first if same_group else CommInfo(""),
        name=name,
        dtype=first.dtype if len({op.dtype for op in ops}) == 1 else "",
        in_nelems=MISSING,
        out_nelems=MISSING,
        in_nbytes=_total([op for op in ops if kind_of_name(op.name) != CollectiveKind.RECV], "in"),
        out_nbytes=_total([op for op in ops if kind_of_name(op.name) != CollectiveKind.SEND], "out"),
        peer=peers.pop() if len(peers) == 1 else MISSING,
        sequence=first.sequence,
        in_split=(),
        out_split=(),
    )


def _total(ops: list[CommInfo], side: str) -> int:
    sizes = [buffer_nbytes(op, side) for op in ops]
    return int(np.sum(sizes)) if sizes and min(sizes) >= 0 else MISSING


def buffer_nbytes(info: CommInfo, side: str) -> int:
    """Bytes of the "in" or "out" buffer: as given, else elements times the size of their type; -1 unknown.

    What no memory holds is a damaged number.
    """
    direct = info.in_nbytes if side == "in" else info.out_nbytes
    nelems, size = (info.in_nelems if side == "in" else info.out_nelems), dtype_nbytes(info.dtype)
    nbytes = direct if direct >= 0 else nelems * size
    return nbytes if 0 <= nbytes < _MOST_BYTES and (direct >= 0 or size) else MISSING
