"""Device rows of a sqlite export: tasks of the streams, collectives with their sub-tasks, the profiler's own sums."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from parsers.ascend.communicators import communicator_id
from parsers.ascend.csv_rows import Row
from parsers.ascend.database import Database, Value
from parsers.ascend.database_copies import engine_of
from parsers.ascend.database_kernels import COMPUTE, Kernels
from parsers.ascend.database_names import Names, integer_of, known
from parsers.ascend.database_rows import COMMUNICATION, HARDWARE, OVERLAP, Place, Writer
from parsers.ascend.events import OTHER, AscendArgs, AscendEvent
from replay.trace import MISSING

_MARK, _FIRST_MARK = "mstx", 4_000_000_001  # tasks that only mark moments of a stream, by type and by connection
_NO_TYPE = frozenset({"", "N/A", "UNKNOWN"})
_GROUP_THREADS = 1 << 16  # numbers kept free for the planes of a group
_OVERLAP_NAMES = {
    "COMPUTE": "Computing", "COMMUNICATION": "Communication", "COMM_NOT_OVERLAP_COMP": "Communication(Not Overlapped)",
    "FREE": "Free",
}  # fmt: skip


@dataclass(slots=True)
class DeviceRows:
    """What was read beside the rows themselves."""

    launched: dict[int, list[AscendEvent]] = field(default_factory=lambda: defaultdict(list))  # by connection
    kernels: list[Row] = field(default_factory=list)  # as a kernel table lists them
    devices: set[int] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Task:
    """One row of TASK."""

    start: int
    end: int
    device: int
    stream: int
    number: int  # inside of its stream, counted modulo 65536
    model: int  # of graph mode
    kind: str
    connection: int
    span: tuple[Value, Value]
    part: bool  # of a task that consists of parts (FFTS+)


def read_device(database: Database, names: Names, writer: Writer) -> DeviceRows:
    """All device rows, into ``writer``."""
    reader = _DeviceReader(database, names, writer)
    tasks = reader.tasks()
    reader.hardware(tasks)
    reader.collectives(reader.sub_tasks(tasks))
    reader.overlap()
    reader.found.kernels = reader.kernels.rows()
    return reader.found


class _DeviceReader:
    def __init__(self, database: Database, names: Names, writer: Writer) -> None:
        self.found, self.kernels = DeviceRows(), Kernels(database, names)
        self._db, self._names, self._writer = database, names, writer
        self._groups: dict[tuple[int, str], int] = {}
        self._only = self._only_device()

    def _only_device(self) -> int:
        """The device of rows that do not tell theirs, -1 where there may be several."""
        listed = self._db.rows("RANK_DEVICE_MAP", ("deviceId",)), self._db.rows("NPU_INFO", ("id",))
        found = {known(number) for rows in listed for (number,) in rows} - {MISSING}
        return found.pop() if len(found) == 1 else MISSING

    def _device(self, value: Value) -> int:
        number = known(value)
        return number if number >= 0 else self._only

    def tasks(self) -> dict[int, _Task]:
        """Tasks by their global number; those without one get a number of their own, below -1."""
        columns = (
            "startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "globalPid", "taskType", "contextId",
            "streamId", "taskId", "modelId",
        )  # fmt: skip
        found: dict[int, _Task] = {}
        for row in self._db.rows("TASK", columns):
            start, end, device, connection, task, pid, kind, context, stream, number, model = row
            self._writer.thread((integer_of(pid) or 0) << 32)
            key = known(task)
            if key in found and found[key].span == (start, end):
                self.found.skipped["rows given twice"] += 1
                continue
            key = key if key >= 0 and key not in found else -2 - len(found)
            found[key] = _Task(
                start=integer_of(start) or 0,
                end=integer_of(end) or 0,
                device=self._device(device),
                stream=known(stream),
                number=known(number),
                model=known(model),
                kind=self._names.name(kind, "UNKNOWN"),
                connection=known(connection),
                span=(start, end),
                part=known(context) >= 0,
            )
            self.found.devices.add(found[key].device)
        return found

    def hardware(self, tasks: dict[int, _Task]) -> None:
        """Rows of the streams; a task that consists of parts is shown by its parts."""
        compute = {known(row[0]): row for row in self._db.rows("COMPUTE_TASK_INFO", COMPUTE)}
        columns = ("globalTaskId", "name", "taskType")
        schedule = {known(row[0]): row for row in self._db.rows("COMMUNICATION_SCHEDULE_TASK_INFO", columns)}
        columns = ("globalTaskId", "size", "memcpyOperation")
        copies = {known(row[0]): row for row in self._db.rows("MEMCPY_INFO", columns)}
        parts = _parts(tasks)
        for key, task in tasks.items():
            if _is_shown_by_parts(task, parts):
                self.found.skipped["tasks shown by their parts"] += 1
                continue
            told = compute.get(key) or schedule.get(key)
            name, kind = task.kind, task.kind
            if told is not None:
                name = self._names.name(told[1], task.kind)
                kind = self._names.text(told[2])
                kind = task.kind if kind in _NO_TYPE else kind
            args = AscendArgs(connection=task.connection, task_type=kind, physical=task.stream)
            args.model, args.task_id = task.model, task.number
            if key in copies:
                args.size = known(copies[key][1])
                args.task_type = engine_of(self._names.copies.get(known(copies[key][2]), ""))
            marks = task.connection >= _FIRST_MARK and told is None
            role = OTHER if marks or name.lower().startswith(_MARK) else "device"
            at = self._writer.device_process(HARDWARE, task.device), task.stream
            self._launched(task.connection, self._writer.add(role, name, task.span, at, args))
            if key in compute:
                self.kernels.add_compute(compute[key], task.kind, task.device, task.stream, task.span)

    def sub_tasks(self, tasks: dict[int, _Task]) -> dict[int, _Task]:
        """Rows of the planes, timed by their tasks; returns a task of each collective."""
        columns = (
            "name", "globalTaskId", "taskType", "planeId", "groupName", "srcRank", "dstRank", "size", "opId",
        )  # fmt: skip
        task_of: dict[int, _Task] = {}
        for row in self._db.rows("COMMUNICATION_TASK_INFO", columns):
            name, key, kind, plane, group, source, target, size, op = row
            task = tasks.get(known(key))
            if task is None:
                self.found.skipped["sub-tasks of collectives without a device task"] += 1
                continue
            task_of[known(op)] = task
            args = AscendArgs(stream_id=task.stream, packet_bytes=known(size))
            args.source_rank, args.target_rank = known(source), known(target)
            text = self._names.text(kind) or self._names.name(name)
            at = self._plane(task.device, self._names.text(group), known(plane))
            self._writer.add("communication", text, task.span, at, args)
        return task_of

    def collectives(self, task_of: dict[int, _Task]) -> None:
        """One row for each collective, and its row of a kernel table."""
        columns = (
            "opName", "startNs", "endNs", "connectionId", "groupName", "opId", "dataType", "count", "opType",
            "deviceId", "rankSize", "algType", "waitNs",
        )  # fmt: skip
        for row in self._db.rows("COMMUNICATION_OP", columns):
            name, start, end, connection, group, op, dtype, count, op_type, device, size, algorithm, wait = row
            task = task_of.get(known(op))
            found = task.device if known(device) < 0 and task is not None else self._device(device)
            args = AscendArgs(connection=known(connection), count=known(count), rank_size=known(size))
            args.data_type = self._names.data_types.get(known(dtype))
            args.comm_model = task.model if task is not None else MISSING
            args.algorithm = self._names.text(algorithm) or None
            text = self._names.name(name)
            at = self._plane(found, self._names.text(group))
            self._launched(known(connection), self._writer.add("communication", text, (start, end), at, args))
            self.found.devices.add(found)
            self.kernels.add_collective(text, self._names.text(op_type) or _type_of(text), wait, found, (start, end))

    def overlap(self) -> None:
        """The profiler's own account of the time of a device."""
        columns = ("startNs", "endNs", "type", "deviceId")
        for start, end, kind, device in self._db.rows("OVERLAP_ANALYSIS", columns):
            label = self._names.overlaps.get(known(kind), "")
            at = self._writer.device_process(OVERLAP, self._device(device)), max(known(kind), 0)
            self._writer.add("overlap", _OVERLAP_NAMES.get(label, label), (start, end), at, AscendArgs())

    def _plane(self, device: int, group: str, plane: int | None = None) -> Place:
        """Thread of a group on a device, or of one of its planes."""
        process = self._writer.device_process(COMMUNICATION, device)
        group = communicator_id(group)
        if (device, group) not in self._groups:
            self._groups[device, group] = len(self._groups) * _GROUP_THREADS
        tid = self._groups[device, group]
        label = f"Group {group} Communication" if group not in _NO_TYPE else "Communication"
        if plane is not None:
            plane = min(max(plane, 0), _GROUP_THREADS - 2)
            tid, label = tid + 1 + plane, f"Plane {plane}"
        else:
            self._writer.timeline.threads[str(process), str(tid)] = label
        self._writer.timeline.threads.setdefault((str(process), str(tid)), label)
        return process, tid

    def _launched(self, connection: int, event: AscendEvent) -> None:
        if connection > 0:
            self.found.launched[connection].append(event)


def _type_of(name: str) -> str:
    """Type of a collective of older exports, which only its name tells: ``hcom_send_`` of hcom_send__586_0_1."""
    operation, mark, _ = name.partition("__")
    return f"{operation}_" if mark else ""


def _parts(tasks: dict[int, _Task]) -> dict[tuple[int, int, int], list[int]]:
    """(device, stream, number) of tasks that have parts → starts of the parts."""
    found: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for task in tasks.values():
        if task.part:
            found[task.device, task.stream, task.number].append(task.start)
    return {key: sorted(starts) for key, starts in found.items()}


def _is_shown_by_parts(task: _Task, parts: dict[tuple[int, int, int], list[int]]) -> bool:
    starts: Sequence[int] = () if task.part else parts.get((task.device, task.stream, task.number), ())
    at = bisect_left(starts, task.start)
    return at < len(starts) and starts[at] <= task.end
