"""Host ranges that wrap one communication call, and what they tell of it."""

from __future__ import annotations

from dataclasses import fields, replace

import msgspec
import numpy as np

from parsers._comm_names import dtype_nbytes, is_comm_host_op, is_transfer, kind_of_name
from parsers._comm_table import CommTable
from parsers._nesting import innermost
from parsers._rows import CommInfo
from replay.core.columns import Int64
from replay.trace import MISSING, CollectiveKind, EventKind

PARAM_COMMS = "record_param_comms"
_EQUAL_BUFFERS = frozenset({CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE})


def comm_ranges(table: CommTable) -> dict[int, CommInfo]:
    """Row → what it and the ranges around it tell, for every host range that wraps a transfer.

    ``record_param_comms`` without metadata (PyTorch before 2.2) tells nothing by itself. A range's own facts win over
    those of the ranges around it: ``nccl:all_to_all`` names only its input, ``c10d::alltoall_base_`` both buffers.
    """
    named = np.array([*map(is_comm_host_op, table.names), False])[table.name]
    rows = np.flatnonzero(named & np.isin(table.kind, (EventKind.CPU_OP, EventKind.ANNOTATION)))
    own = {row: _own_info(table, row) for row in rows.tolist()}
    telling = np.array([row for row in own if _is_transfer(own[row])], dtype=np.int64)
    outer = innermost(table.lane, table.start_ns, table.dur_ns, telling, telling, strictly=True)
    parent = dict(zip(telling.tolist(), outer.tolist(), strict=True))
    known: dict[int, CommInfo] = {}
    for row in telling.tolist():  # sorted by start, so a parent comes first
        around = known.get(parent[row])
        known[row] = own[row] if around is None else completed(own[row], around)
    return known


def completed(info: CommInfo, other: CommInfo) -> CommInfo:
    """``info`` with what it lacks taken from ``other``, where both are of one kind."""
    if kind_of_name(info.name) != kind_of_name(other.name):
        return info
    default = CommInfo("")
    lacking = {
        f.name: getattr(other, f.name)
        for f in fields(CommInfo)
        if getattr(info, f.name) == getattr(default, f.name) != getattr(other, f.name)
    }
    return replace(info, **lacking) if lacking else info


def _is_transfer(info: CommInfo) -> bool:
    return is_transfer(info.name) and kind_of_name(info.name) != CollectiveKind.UNKNOWN


def _own_info(table: CommTable, row: int) -> CommInfo:
    """Recorded metadata, else kind, bytes and type from the range's name, dims and types."""
    recorded = table.comms.get(row)
    if recorded is not None:
        return recorded
    name = table.name_of(row)
    counts = _element_counts(table.shapes[table.shape[row]]) if table.shape[row] >= 0 else []
    types = _decoded(table.dtypes[table.dtype[row]]) if table.dtype[row] >= 0 else []
    known = [(n, str(t)) for n, t in zip(counts, types, strict=False) if n > 0 and dtype_nbytes(str(t))]
    if not known:
        return CommInfo(name)
    if name.startswith("c10d::") and len(known) > 1:  # (output, input, …), the order of c10d's functional schema
        return CommInfo(name, in_nelems=known[1][0], out_nelems=known[0][0], dtype=known[1][1])
    nelems, dtype = sum(n for n, _ in known), known[0][1]  # one tensor, or the parts of a list
    equal = kind_of_name(name) in _EQUAL_BUFFERS
    return CommInfo(name, in_nelems=nelems, out_nelems=nelems if equal else MISSING, dtype=dtype)


def _element_counts(shapes: str) -> list[int]:
    """Elements of each argument of "Input Dims", 0 for what is not a tensor."""
    return [
        int(np.prod(dim)) if isinstance(dim, list) and dim and all(isinstance(d, int) for d in dim) else 0
        for dim in _decoded(shapes)
    ]


def _decoded(text: str) -> list[object]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return []
    return value if isinstance(value, list) else []


def rows_of(ranges: dict[int, CommInfo]) -> Int64:
    """The range rows as a sorted column."""
    return np.array(sorted(ranges), dtype=np.int64)
