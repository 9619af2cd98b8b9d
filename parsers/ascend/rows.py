"""Rows of one Ascend timeline: host threads, device streams, one collective per HCCL operator.

Framework and CANN rows of one thread share its lane. Device tasks lie on their logical stream, and so does each
collective: on the stream whose tasks carry it out, which thereby are no ops of their own. Derived rows (Overlap
Analysis) are summed up and kept apart.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from parsers._categories import MODULE_PREFIX
from parsers._numbers import integer
from parsers._rows import COLUMNS, CommInfo, Rows
from parsers.ascend.events import AscendArgs, AscendEvent, Timeline
from parsers.ascend.hccl import HcclOp, hccl_ops
from parsers.ascend.launches import Launching, connection, find_launches, queue_number
from parsers.ascend.tasks import kind_of_task
from parsers.ascend.text import dims_json, types_json
from parsers.ascend.timed import Timed, timed
from replay.core.columns import Interner
from replay.trace import MISSING, EventKind, Lane

_NO_ARGS = AscendArgs()
_FUSED_SUFFIX = re.compile(r"_?Ai?cpu(?:Kernel)?$", re.IGNORECASE)
_CARRIES = re.compile(r"SDMA|RDMA|NOTIFY|WRITE.VALUE", re.IGNORECASE)  # task types that move or signal
_WAITING = frozenset({"aten::_local_scalar_dense"})  # operators that stand for the sync inside, where no call does
_DEVICE_BITS = 31  # of a process id


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
    host = {role: timed(timeline.rows[role], dropped) for role in ("framework", "cann")}
    device = timed(timeline.rows["device"], dropped)
    communication = timed(timeline.rows["communication"], dropped)
    ops, sub_tasks = hccl_ops(timeline, communication)
    big = [communication.events[op.row] for op in ops]
    launching = find_launches(timeline, host["cann"], host["framework"], [*device.events, *big])
    builder = _Builder(timeline, launching, keep_modules=keep_modules)
    builder.skipped["sub-tasks of collectives (planes)"] += sub_tasks
    for role in ("framework", "cann"):
        builder.add_host(host[role], role)
    builder.add_device(device, communication, ops)
    overlap = timed(timeline.rows["overlap"], dropped)
    builder.skipped["derived rows (Overlap Analysis)"] += len(overlap)
    builder.skipped["rows of other processes"] += len(timeline.rows["other"])
    overlap_ns: Counter[str] = Counter()
    for event, dur in zip(overlap.events, overlap.dur_ns.tolist(), strict=True):
        overlap_ns[str(event.name)] += dur
    inferred = +launching.inferred
    rows, found = builder.finish()
    return AscendContent(rows, found, builder.device, dict(overlap_ns), +builder.skipped, dropped, inferred)


class _Builder:
    """Growing columns of one timeline."""

    def __init__(self, timeline: Timeline, launching: Launching, *, keep_modules: bool) -> None:
        self.skipped: Counter[str] = Counter()
        self.device = device_number(timeline, "")
        self._timeline, self._launching, self._keep_modules = timeline, launching, keep_modules
        self._names, self._shapes, self._dtypes = Interner(), Interner(), Interner()
        self._lanes: dict[tuple[bool, str], int] = {}
        self._lane_list: list[Lane] = []
        self._columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self._comms: dict[int, CommInfo] = {}
        self._ops: dict[int, HcclOp] = {}

    def _add(self, kind: EventKind, name: str, times: tuple[int, int], lane: int, **values: int) -> int:
        row = len(self._columns["start_ns"])
        given = {"start_ns": times[0], "dur_ns": times[1], "kind": int(kind), "name": self._names.code(name)}
        given |= {"lane": lane, **values}
        for column, rows in self._columns.items():
            rows.append(given.get(column, MISSING))
        return row

    def add_host(self, rows: Timed, role: str) -> None:
        """Framework or CANN rows."""
        for event, start, dur in zip(rows.events, rows.start_ns.tolist(), rows.dur_ns.tolist(), strict=True):
            kind, name = self._host_kind(event, role)
            if kind is None:
                self.skipped["python functions"] += 1
                continue
            args = event.args or _NO_ARGS
            values = {"correlation": self._launching.of.get(id(event), connection(event))}
            values |= {"external_id": queue_number(event), "sequence": integer(args.sequence)}
            if args.dims or args.dtypes:
                values["shape"] = self._shapes.code(dims_json(bytes(args.dims)))
                values["dtype"] = self._dtypes.code(types_json(bytes(args.dtypes)))
            self._add(kind, name, (start, dur), self._thread(event), **values)

    def _host_kind(self, event: AscendEvent, role: str) -> tuple[EventKind | None, str]:
        name = str(event.name)
        waits = name in _WAITING and not self._timeline.rows["cann"]
        if role == "cann" or waits or id(event) in self._launching.launching:
            return EventKind.RUNTIME, name
        if event.cat == "enqueue":
            return EventKind.RUNTIME, "Enqueue"  # newer versions append what the Dequeue names as well
        if event.cat == "dequeue":
            return EventKind.RUNTIME, name
        if event.cat == "python_function":
            kept = self._keep_modules and name.startswith(MODULE_PREFIX)
            return (EventKind.MODULE if kept else None), name
        return EventKind.CPU_OP, name

    def add_device(self, tasks: Timed, communication: Timed, ops: Sequence[HcclOp]) -> None:
        """Device tasks on their streams, and collectives on the stream that carries them out."""
        carriers = _carriers(tasks, communication, ops)
        carried = {task for own in carriers for task in own}
        kernels: dict[str, list[tuple[int, int, int]]] = defaultdict(list)  # name → (start, end, row)
        for at, event in enumerate(tasks.events):
            if at in carried:
                self.skipped["device tasks of collectives"] += 1
                continue
            args = event.args or _NO_ARGS
            name = str(event.name)
            kind = kind_of_task(name, str(args.task_type or ""))
            if kind is None:
                self.skipped["device bookkeeping tasks"] += 1
                continue
            if kind == EventKind.MEMCPY and args.task_type and str(args.task_type) not in name:
                name = f"{name} ({args.task_type})"  # tells copies over the host's bus from those inside of the device
            times = int(tasks.start_ns[at]), int(tasks.dur_ns[at])
            stream, number = integer(event.tid), self._launching.of.get(id(event), connection(event))
            values = {"correlation": number, "stream": stream, "nbytes": integer(args.size)}
            row = self._add(kind, name, times, self._stream(event, stream), **values)
            if kind == EventKind.KERNEL:
                kernels[name].append((times[0], times[0] + times[1], row))
        for op, own in zip(ops, carriers, strict=True):
            self._add_collective(op, communication.events[op.row], tasks, own, kernels)

    def _add_collective(
        self,
        op: HcclOp,
        event: AscendEvent,
        tasks: Timed,
        carriers: Sequence[int],
        kernels: dict[str, list[tuple[int, int, int]]],
    ) -> None:
        fused = _fused_kernel(op, kernels)
        if fused >= 0:  # one op with both parts: the kernel is where it runs, the row tells what it exchanges
            self.skipped["communication rows of fused kernels"] += 1
            self._comms[fused], self._ops[fused] = _comm_info(op, op.name), replace(op, transfer_ns=MISSING)
            return
        stream = integer(tasks.events[carriers[0]].tid) if carriers else op.stream
        lane = self._stream(tasks.events[carriers[0]] if carriers else event, stream)
        name = f"hcom_{op.operator}_" if op.suffix else op.name
        values = {"correlation": self._launching.of.get(id(event), connection(event)), "stream": stream}
        row = self._add(EventKind.KERNEL, name, (op.start_ns, op.dur_ns), lane, **values)
        self._comms[row], self._ops[row] = _comm_info(op, name), op

    def _thread(self, event: AscendEvent) -> int:
        tid = str(event.tid)
        label = (self._timeline.thread_of(event) or f"thread {tid}").replace("Thread ", "thread ", 1)
        return self._lane((False, tid), Lane(MISSING, False, label, tid=tid))

    def _stream(self, event: AscendEvent, stream: int) -> int:
        """Lane of a stream of the device of ``event``; what has no stream lies on its thread."""
        device = device_number(self._timeline, str(event.pid))
        label = f"stream {stream}" if stream >= 0 else self._timeline.thread_of(event) or str(event.tid)
        lane = Lane(MISSING, True, label, device, stream, tid="" if stream >= 0 else label)
        return self._lane((True, f"{device} {label}"), lane)

    def _lane(self, key: tuple[bool, str], lane: Lane) -> int:
        if key not in self._lanes:
            self._lanes[key] = len(self._lane_list)
            self._lane_list.append(lane)
        return self._lanes[key]

    def finish(self) -> tuple[Rows, dict[int, HcclOp]]:
        """All rows, and the collectives among them."""
        columns = {name: np.array(values, np.int64) for name, values in self._columns.items()}
        tables = {"names": self._names.names, "shapes": self._shapes.names, "dtypes": self._dtypes.names}
        return Rows(**columns, **tables, lanes=tuple(self._lane_list), comms=self._comms), self._ops  # type: ignore[arg-type]


def _comm_info(op: HcclOp, name: str) -> CommInfo:
    """What the timeline tells of a collective: one count of elements, taken for both of its buffers."""
    told = CommInfo(name, dtype=op.dtype, transfer_ns=op.transfer_ns, algorithm=op.algorithm)
    return replace(told, in_nelems=op.count, out_nelems=op.count)


def _carriers(tasks: Timed, communication: Timed, ops: Sequence[HcclOp]) -> list[list[int]]:
    """Device tasks that carry out each collective: those of its connection, else those that move data in its time."""
    by_connection: dict[int, list[int]] = defaultdict(list)
    moving: list[int] = []
    for at, event in enumerate(tasks.events):
        by_connection[connection(event)].append(at)
        if _CARRIES.search(str((event.args or _NO_ARGS).task_type or "")):
            moving.append(at)
    moving.sort(key=lambda at: int(tasks.start_ns[at]))
    begins = tasks.start_ns[moving]
    found = []
    for op in ops:
        number = connection(communication.events[op.row])
        own = by_connection.get(number, []) if number > 0 else []
        own = [at for at in own if op.start_ns <= int(tasks.start_ns[at]) <= op.end_ns]
        if not own and not _FUSED_SUFFIX.search(op.name):
            first, last = np.searchsorted(begins, (op.start_ns, op.end_ns)).tolist()
            own = [at for at in moving[first:last] if _is_signal_of(tasks, at, op)]
        found.append(sorted(own, key=lambda at: int(tasks.start_ns[at])))
    return found


def _is_signal_of(tasks: Timed, at: int, op: HcclOp) -> bool:
    """Whether a task that moves or signals belongs to ``op`` rather than to a copy of the program's own."""
    copies = str(tasks.events[at].name).upper().startswith("MEMCPY")
    return not copies and int(tasks.start_ns[at] + tasks.dur_ns[at]) <= op.end_ns


def _fused_kernel(op: HcclOp, kernels: dict[str, list[tuple[int, int, int]]]) -> int:
    """Row of the compute kernel that ``op`` is the communication of (MC2), -1 none."""
    if not _FUSED_SUFFIX.search(op.name):
        return -1
    base = _FUSED_SUFFIX.sub("", op.name).lower()
    near = [
        (min(end, op.end_ns) - max(start, op.start_ns), row)
        for name, rows in kernels.items()
        if base and base in name.lower()
        for start, end, row in rows
        if start < op.end_ns and end > op.start_ns
    ]
    return max(near)[1] if near else -1


def device_number(timeline: Timeline, process: str) -> int:
    """Number of the device of a process, or of the first device: of a label "NPU 3", else the id's last bits."""
    if not process:
        rows = (event for role in ("device", "communication") for event in timeline.rows[role][:1])
        process = next((str(event.pid) for event in rows), "")
    labelled = re.search(r"\d+", timeline.labels.get(process, ""))
    if labelled:
        return int(labelled[0])
    return int(process) & _DEVICE_BITS if process.isdecimal() else MISSING
