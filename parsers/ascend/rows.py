"""Rows of one Ascend timeline: host threads, device streams, one collective per HCCL operator.

Framework and CANN rows of one thread share its lane. Device tasks lie on their logical stream, and so does each
collective: on the stream whose tasks carry it out, which thereby are no ops of their own. Derived rows (Overlap
Analysis) are summed up and kept apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from parsers._numbers import Scalar, integer, integers
from parsers._rows import COLUMNS, CommInfo, Rows
from parsers.ascend.carriers import Spans, carriers_of, fused_kernel, moving_ns, servers
from parsers.ascend.events import PYTHON_FUNCTIONS, Timeline
from parsers.ascend.hccl import HcclOp, buffer_counts, hccl_ops
from parsers.ascend.lanes import Lanes, device_number
from parsers.ascend.launches import Launching, find_launches, queue_numbers
from parsers.ascend.tasks import task
from parsers.ascend.text import dims_json, types_json
from parsers.ascend.timed import Timed, chosen, joined, timed, written_as_floats
from replay.core.columns import Bool, Int64, Interner
from replay.trace import MISSING, CollectiveKind, EventKind

_WAITING = frozenset({"aten::_local_scalar_dense"})  # operators that stand for the sync inside, where no call does
_NAMES_OF_DIRECTIONS = {CollectiveKind.SEND: "hcom_send_", CollectiveKind.RECV: "hcom_receive_"}
_ENQUEUE = "Enqueue"  # newer versions append what the Dequeue names as well
_NOTHING = -1
_SEQUENCE, _SIZE, _TID = attrgetter("sequence"), attrgetter("size"), attrgetter("tid")
_KIND_OF_CATEGORY: dict[Scalar, EventKind] = {
    "enqueue": EventKind.RUNTIME,
    "dequeue": EventKind.RUNTIME,
    "python_function": EventKind.MODULE,  # the others are let go of while reading
}


@dataclass(frozen=True, slots=True)
class AscendContent:
    """What one timeline holds; ``ops`` are its collectives, by row."""

    rows: Rows
    ops: dict[int, HcclOp]
    device: int
    overlap_ns: dict[str, int]  # row name of Overlap Analysis → summed duration
    skipped: Counter[str]
    dropped: Counter[str]
    inferred: Counter[str]


def read_rows(timeline: Timeline, *, keep_modules: bool) -> AscendContent:
    """Rows of ``timeline``; their collectives carry what the timeline tells of them, without a group yet."""
    dropped: Counter[str] = Counter()
    framework, cann = (timed(timeline.rows[role], dropped) for role in ("framework", "cann"))
    tasks = timed(timeline.rows["device"], dropped)
    communication = timed(timeline.rows["communication"], dropped)
    ops, sub_tasks = hccl_ops(timeline, communication)
    big = chosen(communication, [op.row for op in ops])
    launching = find_launches(timeline, cann, framework, joined(tasks, big))
    builder = _Builder(timeline, launching)
    builder.skipped["sub-tasks of collectives (planes)"] += sub_tasks
    builder.skipped["collectives written twice"] += len(communication) - sub_tasks - len(ops)
    builder.add_framework(framework, keep_modules=keep_modules)
    builder.add_calls(cann)
    builder.add_device(tasks, big, ops)
    overlap = timed(timeline.rows["overlap"], dropped)
    builder.skipped["derived rows (Overlap Analysis)"] += len(overlap)
    builder.skipped["rows of other processes"] += len(timeline.rows["other"])
    overlap_ns: Counter[str] = Counter()
    for event, dur in zip(overlap.events, overlap.dur_ns.tolist(), strict=True):
        overlap_ns[str(event.name)] += dur
    inferred = +(launching.inferred + builder.inferred)
    floats = sum(map(written_as_floats, (framework, cann, tasks, communication)))
    inferred += Counter({"times written as floats, which keep 0.25 us": floats} if floats else {})
    device = device_number(timeline, "")
    return AscendContent(builder.finish(), builder.ops, device, dict(overlap_ns), +builder.skipped, dropped, inferred)


class _Builder:
    """Growing columns of one timeline."""

    def __init__(self, timeline: Timeline, launching: Launching) -> None:
        self.skipped: Counter[str] = Counter()
        self.inferred: Counter[str] = Counter()
        self.ops: dict[int, HcclOp] = {}
        self._launching = launching
        self._has_calls = bool(timeline.rows["cann"])  # else operators stand for the calls inside
        self._lanes = Lanes(timeline)
        self._names, self._shapes, self._dtypes = Interner(), Interner(), Interner()
        self._parts: list[dict[str, Int64]] = []
        self._count = 0
        self.comms: dict[int, CommInfo] = {}

    def _add(self, rows: Timed, **columns: Int64) -> int:
        """Rows with these columns beside their times, the others missing; number of the first."""
        first, count = self._count, len(rows)
        given = {"start_ns": rows.start_ns, "dur_ns": rows.dur_ns, **columns}
        nothing = np.full(count, MISSING, np.int64)
        self._parts.append({name: given.get(name, nothing) for name in COLUMNS})
        self._count += count
        return first

    def _named(self, names: Iterable[str]) -> Int64:
        return np.array([*map(self._names.code, names)], np.int64)

    def add_framework(self, rows: Timed, *, keep_modules: bool) -> None:
        """Operators, modules, and both ends of the task queue."""
        kind = np.array([_KIND_OF_CATEGORY.get(event.cat, EventKind.CPU_OP) for event in rows.events], np.int64)
        kind[[args.range_type is not None for args in rows.args]] = EventKind.ANNOTATION
        names = [_ENQUEUE if event.cat == "enqueue" else str(event.name) for event in rows.events]
        kind[self._launching.launches] = EventKind.RUNTIME
        if not self._has_calls:
            kind[[name in _WAITING for name in names]] = EventKind.RUNTIME
        columns = {
            "kind": kind,
            "name": self._named(names),
            "lane": self._lanes.threads(rows.events),
            "correlation": self._launching.framework,
            "external_id": queue_numbers(rows),
            "sequence": integers(list(map(_SEQUENCE, rows.args))),
            "shape": _coded(self._shapes, [bytes(args.dims) for args in rows.args], dims_json),
            "dtype": _coded(self._dtypes, [bytes(args.dtypes) for args in rows.args], types_json),
        }
        kept = np.flatnonzero((kind != EventKind.MODULE) | keep_modules)
        self.skipped[PYTHON_FUNCTIONS] += len(rows) - len(kept)
        self._add(chosen(rows, kept), **{name: column[kept] for name, column in columns.items()})

    def add_calls(self, rows: Timed) -> None:
        """Calls of CANN's layers."""
        kind = np.full(len(rows), EventKind.RUNTIME, np.int64)
        name, lane = self._named(str(event.name) for event in rows.events), self._lanes.threads(rows.events)
        self._add(rows, kind=kind, name=name, lane=lane, correlation=self._launching.cann)

    def add_device(self, tasks: Timed, big: Timed, ops: Sequence[HcclOp]) -> None:
        """Device tasks on their streams, and collectives on the stream that carries them out."""
        carriers = carriers_of(tasks, big, ops)
        ops = [replace(op, moving_ns=moving_ns(tasks, own)) for op, own in zip(ops, carriers, strict=True)]
        carried = np.zeros(len(tasks), np.bool_)
        carried[[*(row for own in carriers for row in own), *servers(tasks, ops)]] = True
        kernels, rows = self._add_tasks(tasks, carried)
        alone = [at for at, op in enumerate(ops) if not (op.served and self._fuse(op, kernels, rows))]
        where = [tasks.events[own[0]] if own else event for own, event in zip(carriers, big.events, strict=True)]
        stream = [
            integer(event.tid) if own else next(iter(op.streams), MISSING)
            for event, own, op in zip(where, carriers, ops, strict=True)
        ]
        names = [f"hcom_{op.operator}_" if op.suffix else op.name for op in ops]
        first = self._add(
            chosen(big, alone),
            kind=np.full(len(alone), EventKind.KERNEL, np.int64),
            name=self._named(names[at] for at in alone),
            lane=self._lanes.streams([where[at] for at in alone], np.array([stream[at] for at in alone], np.int64)),
            stream=np.array([stream[at] for at in alone], np.int64),
            correlation=self._launching.device[len(tasks) :][alone],
        )
        directed = sum(op.direction in _NAMES_OF_DIRECTIONS for op in ops)
        self.inferred["batched exchanges of one direction, told by which side moved the bytes"] += directed
        for row, at in enumerate(alone, first):
            self.comms[row], self.ops[row] = _comm_info(ops[at], names[at]), ops[at]

    def _add_tasks(self, tasks: Timed, carried: Bool) -> tuple[Spans, list[int]]:
        """Tasks that are ops by themselves; the kernels among them, and their rows."""
        what = [task(str(e.name), str(a.task_type or "")) for e, a in zip(tasks.events, tasks.args, strict=True)]
        kinds = np.array([_NOTHING if found.kind is None else found.kind for found in what], np.int64)
        kept = np.flatnonzero(~carried & (kinds != _NOTHING))
        self.skipped["device tasks of collectives"] += int(carried.sum())
        self.skipped["device bookkeeping tasks"] += len(tasks) - int(carried.sum()) - len(kept)
        own, names = chosen(tasks, kept), [what[row].name for row in kept.tolist()]
        for row in kept.tolist():
            if not what[row].known:
                self.inferred[f"device tasks of unknown type {tasks.args[row].task_type or 'none'}, taken as work"] += 1
        stream = integers(list(map(_TID, own.events)))
        first = self._add(
            own,
            kind=kinds[kept],
            name=self._named(names),
            lane=self._lanes.streams(own.events, stream),
            stream=stream,
            correlation=self._launching.device[: len(tasks)][kept],
            nbytes=integers(list(map(_SIZE, own.args))),
        )
        at = np.flatnonzero(kinds[kept] == EventKind.KERNEL)
        ends = own.start_ns + own.dur_ns
        return Spans([names[one] for one in at.tolist()], own.start_ns[at], ends[at]), (first + at).tolist()

    def _fuse(self, op: HcclOp, kernels: Spans, rows: Sequence[int]) -> bool:
        """Make ``op`` the other part of the kernel beside it, which is where it runs, if there is one."""
        at = fused_kernel(op, kernels)
        if at >= 0:
            row = rows[at]
            self.skipped["communication rows of fused kernels"] += 1
            self.comms[row], self.ops[row] = _comm_info(op, op.name), replace(op, transfer_ns=MISSING)
        return at >= 0

    def finish(self) -> Rows:
        """All rows."""
        empty = np.zeros(0, np.int64)
        columns = {name: np.concatenate([empty, *(part[name] for part in self._parts)]) for name in COLUMNS}
        tables = {"names": self._names.names, "shapes": self._shapes.names, "dtypes": self._dtypes.names}
        return Rows(**columns, **tables, lanes=self._lanes.all, comms=self.comms)  # type: ignore[arg-type]


def _coded(table: Interner, raw: Sequence[bytes], read: Callable[[bytes], str]) -> Int64:
    """Codes of what ``raw`` says, -1 where it is absent."""
    codes = {text: table.code(read(text)) if text else MISSING for text in dict.fromkeys(raw)}
    return np.array([codes[text] for text in raw], np.int64)


def _comm_info(op: HcclOp, name: str) -> CommInfo:
    """What the timeline tells of a collective by itself."""
    sent, received = buffer_counts(op, op.rank_size)
    return CommInfo(
        _NAMES_OF_DIRECTIONS.get(op.direction, name),
        in_nelems=sent,
        out_nelems=received,
        dtype=op.dtype,
        transfer_ns=op.transfer_ns,
        algorithm=op.algorithm,
    )
