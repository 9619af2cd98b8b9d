"""Finds the communication events of a trace and what is known of each: own args, else the op around its launch, else name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec
import numpy as np

from parsers._comm_names import (
    dtype_nbytes,
    is_comm_host_op,
    is_transfer,
    kind_of_kernel,
    kind_of_name,
    looks_like_communication,
)
from parsers._nesting import innermost
from parsers._rows import CommInfo
from replay.core.columns import Int8, Int32, Int64, Ragged
from replay.trace import MISSING, CollectiveKind, Collectives, CommEvidence, EventKind, Group, Health

_NO_INFO = CommInfo("")


@dataclass(frozen=True, slots=True)
class CommTable:
    """The columns that finding collectives needs, sorted like the trace."""

    kind: Int8
    name: Int64
    names: tuple[str, ...]
    rank: Int32
    lane: Int64
    start_ns: Int64
    dur_ns: Int64
    correlation: Int64
    shape: Int64
    dtype: Int64
    shapes: tuple[str, ...]
    dtypes: tuple[str, ...]
    comms: dict[int, CommInfo]
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Collectives of a trace and the column that points to them."""

    comm: Int32
    collectives: Collectives
    groups: tuple[Group, ...]
    health: Health


@dataclass(frozen=True, slots=True)
class _Row:
    event: int
    kind: CollectiveKind
    info: CommInfo
    evidence: CommEvidence


def find_collectives(table: CommTable) -> Found:
    """Communication of ``table``; on CPU-only traces the host ops themselves are the events."""
    rows = _device_rows(table)
    if not rows and not np.isin(table.kind, (EventKind.KERNEL,)).any():
        rows = _host_rows(table)
    groups: dict[Group, int] = {group: i for i, group in enumerate(table.groups)}
    comm = np.full(len(table.kind), MISSING, dtype=np.int32)
    for at, row in enumerate(rows):
        comm[row.event] = at
    collectives = _pack(rows, groups)
    return Found(comm, collectives, tuple(groups), _health(table, rows))


def _device_rows(table: CommTable) -> list[_Row]:
    kinds = [kind_of_kernel(name) for name in table.names]
    by_name = np.array([kind is not None for kind in kinds] + [False])
    is_kernel = table.kind == EventKind.KERNEL
    own = np.zeros(len(table.kind), dtype=np.bool_)
    own[list(table.comms)] = True
    events = np.flatnonzero(is_kernel & (own | by_name[table.name]))
    parents = _parents(table, events)
    rows: list[_Row] = []
    for event, parent in zip(events.tolist(), parents.tolist(), strict=True):
        named = kinds[table.name[event]]
        own_info = table.comms.get(event)
        if own_info is not None and not is_transfer(own_info.name):
            own_info = None
        if own_info is not None:
            kind = kind_of_name(own_info.name)
            rows.append(_Row(event, kind or named or kind, own_info, CommEvidence.KERNEL_ARGS))
        elif parent >= 0:
            info = table.comms.get(parent) or _info_of_range(table, parent)
            kind = kind_of_name(info.name)
            rows.append(_Row(event, kind or named or kind, info, CommEvidence.PARENT_OP))
        elif named is not None:
            rows.append(_Row(event, named, _NO_INFO, CommEvidence.NAME))
    return rows


def _parents(table: CommTable, events: Int64) -> Int64:
    """Innermost communication range around the launch of each device event, -1 none."""
    launch = launches_of(table.kind, table.rank, table.correlation, events)
    ranges = _comm_ranges(table)
    found = np.full(len(events), MISSING, dtype=np.int64)
    known = launch >= 0
    found[known] = innermost(table.lane, table.start_ns, table.dur_ns, ranges, launch[known])
    return found


def launches_of(kind: Int8, rank: Int32, correlation: Int64, events: Int64) -> Int64:
    """Runtime row with the same rank and correlation as each event, -1 none."""
    runtime = np.flatnonzero((kind == EventKind.RUNTIME) & (correlation > 0))
    order = np.lexsort((correlation[runtime], rank[runtime]))
    runtime = runtime[order]
    key = _key(rank[runtime], correlation[runtime])
    wanted = _key(rank[events], correlation[events])
    at = np.searchsorted(key, wanted)
    found = np.full(len(events), MISSING, dtype=np.int64)
    inside = at < len(key)
    hit = np.zeros(len(events), dtype=np.bool_)
    hit[inside] = key[at[inside]] == wanted[inside]
    found[hit & (correlation[events] > 0)] = runtime[at[hit & (correlation[events] > 0)]]
    return found


def _key(rank: Int32, correlation: Int64) -> Int64:
    key: Int64 = rank.astype(np.int64) * (1 << 40) + np.minimum(correlation, (1 << 40) - 1)
    return key


def _comm_ranges(table: CommTable) -> Int64:
    """Host rows that wrap one transfer; record_param_comms without metadata tells nothing and is left out."""
    named = np.array([is_comm_host_op(name) for name in table.names] + [False])[table.name]
    host = np.isin(table.kind, (EventKind.CPU_OP, EventKind.ANNOTATION))
    rows = np.flatnonzero(named & host)
    keep = [
        row in table.comms and is_transfer(table.comms[row].name)
        if table.names[table.name[row]] == "record_param_comms"
        else kind_of_name(table.names[table.name[row]]) != CollectiveKind.UNKNOWN
        for row in rows.tolist()
    ]
    return rows[np.array(keep, dtype=np.bool_)]


def _host_rows(table: CommTable) -> list[_Row]:
    """Outermost communication ranges of a trace without device work."""
    ranges = _comm_ranges(table)
    outer = innermost(table.lane, table.start_ns, table.dur_ns, ranges, ranges, strictly=True)
    rows = []
    for event, parent in zip(ranges.tolist(), outer.tolist(), strict=True):
        if parent >= 0:
            continue
        info = table.comms.get(event) or _info_of_range(table, event)
        rows.append(_Row(event, kind_of_name(info.name), info, CommEvidence.PARENT_OP))
    return rows


def _info_of_range(table: CommTable, event: int) -> CommInfo:
    """Kind and bytes of a c10d::/nccl:/gloo: range from its name, dims and types."""
    name = table.names[table.name[event]]
    counts = _element_counts(table.shapes[table.shape[event]]) if table.shape[event] >= 0 else []
    types = msgspec.json.decode(table.dtypes[table.dtype[event]]) if table.dtype[event] >= 0 else []
    word = str(types[0]) if isinstance(types, list) and types else ""
    if not counts or not dtype_nbytes(word):
        return CommInfo(name)
    return CommInfo(name, in_nelems=counts[0], out_nelems=MISSING, dtype=word)


def _element_counts(shapes: str) -> list[int]:
    try:
        dims = msgspec.json.decode(shapes)
    except msgspec.DecodeError:
        return []
    counts = []
    for dim in dims if isinstance(dims, list) else []:
        if isinstance(dim, list) and dim and all(isinstance(d, int) for d in dim):
            counts.append(int(np.prod(dim)))
    return counts


def _pack(rows: list[_Row], groups: dict[Group, int]) -> Collectives:
    def nbytes(direct: int, nelems: int, dtype: str) -> int:
        if direct >= 0:
            return direct
        size = dtype_nbytes(dtype)
        return nelems * size if nelems >= 0 and size else MISSING

    return Collectives(
        kind=np.array([row.kind for row in rows], dtype=np.int8),
        group=np.array([_group_code(row.info, groups) for row in rows], dtype=np.int32),
        sequence=np.array([row.info.sequence for row in rows], dtype=np.int64),
        in_nbytes=np.array([nbytes(r.info.in_nbytes, r.info.in_nelems, r.info.dtype) for r in rows], dtype=np.int64),
        out_nbytes=np.array([nbytes(r.info.out_nbytes, r.info.out_nelems, r.info.dtype) for r in rows], dtype=np.int64),
        peer=np.array([row.info.peer for row in rows], dtype=np.int32),
        evidence=np.array([row.evidence for row in rows], dtype=np.int8),
        dtype=tuple(row.info.dtype for row in rows),
        in_split=Ragged.from_rows([row.info.in_split for row in rows]),
        out_split=Ragged.from_rows([row.info.out_split for row in rows]),
    )


def _group_code(info: CommInfo, groups: dict[Group, int]) -> int:
    if not info.group and not info.ranks and info.group_size < 0:
        return MISSING
    for group, code in groups.items():
        same = group.name == info.group and (not info.ranks or not group.ranks or group.ranks == info.ranks)
        if same and (info.group_size < 0 or group.size in (MISSING, info.group_size)):
            return code
    group = Group(info.group, info.description, info.ranks, info.group_size)
    return groups.setdefault(group, len(groups))


def _health(table: CommTable, rows: list[_Row]) -> Health:
    inferred: Counter[str] = Counter()
    for row in rows:
        if row.evidence == CommEvidence.PARENT_OP:
            inferred["collectives described by the op around their launch"] += 1
        elif row.evidence == CommEvidence.NAME:
            inferred["collectives known by name only"] += 1
    is_kernel = table.kind == EventKind.KERNEL
    events = np.flatnonzero(np.isin(table.kind, (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)))
    without = int((launches_of(table.kind, table.rank, table.correlation, events) < 0).sum())
    suspect = np.array([looks_like_communication(name) for name in table.names] + [False])[table.name] & is_kernel
    suspect[[row.event for row in rows]] = False
    warnings = []
    if suspect.any():
        share = 100.0 * table.dur_ns[suspect].sum() / max(1, int(table.dur_ns[is_kernel].sum()))
        names = sorted({table.names[i] for i in np.unique(table.name[suspect])})
        shown = ", ".join(name[:60] for name in names[:3])
        warnings.append(
            f"{int(suspect.sum())} kernels look like communication but are not recognised ({share:.1f} % of kernel "
            f"time): {shown}"
        )
    return Health(inferred=dict(inferred), kernels_without_launch=without, warnings=tuple(warnings))
