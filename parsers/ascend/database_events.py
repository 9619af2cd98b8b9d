"""Rows of a sqlite export as the rows of a timeline, so that one reading of what they mean serves both.

Times are integer nanoseconds, in some tables as text; names, types and shapes are numbers of STRING_IDS or of an ENUM
table. Sources of the tables: msprof's reference of database exports, torch_npu's database parsers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from parsers._categories import MODULE_PREFIX
from parsers.ascend.csv_rows import Row
from parsers.ascend.database import Database, Value
from parsers.ascend.database_copies import tell_engines
from parsers.ascend.database_names import Names, known
from parsers.ascend.database_rows import CANN, Writer
from parsers.ascend.database_tasks import read_device
from parsers.ascend.events import PYTHON_FUNCTIONS, AscendArgs, AscendEvent, Timeline

_LEVELS = {"acl": "AscendCL", "model": "Model", "node": "Node", "communication": "Communication", "runtime": "Runtime"}
_FUNCTION = "python_function"
_CATEGORIES = {"op": "cpu_op", "trace": _FUNCTION, "mstx": "cpu_op"}
_LETTER = re.compile(r"[A-Za-z]")  # types have some, shapes none
_STEP = "ProfilerStep#"
# columns on which the meaning of a table hangs, and what is lost without them
_LOSSES = {
    "TASK": {"connectionId": "which call launched a task", "streamId": "streams", "taskType": "types of tasks"},
    "COMMUNICATION_OP": {
        "count": "bytes of collectives", "dataType": "bytes of collectives", "groupName": "groups of collectives",
        "connectionId": "which call launched a collective",
    },
    "COMMUNICATION_TASK_INFO": {"srcRank": "time on the wire", "dstRank": "time on the wire", "opId": "sub-tasks"},
    "CANN_API": {"connectionId": "which call launched a task", "globalTid": "threads of calls"},
    "PYTORCH_API": {"globalTid": "threads of operators"},
}  # fmt: skip

# tables, what is lost without them, and the others whose rows show that something is lost
_TABLES = {
    "TASK": ("device tasks", "COMPUTE_TASK_INFO", "CANN_API"),
    "CANN_API": ("which call launched a task", "TASK"),
    "COMPUTE_TASK_INFO": ("names, types and shapes of kernels", "TASK"),
    "COMMUNICATION_OP": ("collectives", "COMMUNICATION_TASK_INFO"),
}


@dataclass(frozen=True, slots=True)
class Export:
    """The rows of all devices of one export, each device with processes of its own.

    ``kernels`` are rows as a kernel table would have them.
    """

    timeline: Timeline
    kernels: list[Row]
    devices: frozenset[int]


def read_export(database: Database, names: Names) -> Export:
    """All rows."""
    writer = Writer()
    operators = _framework(database, names, writer)
    _steps(database, writer)
    _cann(database, names, writer)
    _other_host_rows(database, names, writer)
    device = read_device(database, names, writer)
    tell_engines(writer.timeline)
    _draw_arrows(writer.timeline, operators, device.launched)
    writer.timeline.losses.seen = sum(map(len, writer.timeline.rows.values()))
    writer.timeline.skipped += device.skipped
    writer.timeline.notes = _notes(database, names)
    return Export(writer.timeline, device.kernels, frozenset(device.devices))


def _framework(database: Database, names: Names, writer: Writer) -> dict[int, list[AscendEvent]]:
    """Operators, both ends of the task queue, Python functions; returns connection → operators that name it."""
    lists = _connection_lists(database)
    found: dict[int, list[AscendEvent]] = defaultdict(list)
    categories: dict[tuple[Value, Value], str] = {}
    columns = (
        "startNs", "endNs", "globalTid", "type", "connectionId", "name", "sequenceNumber", "inputDtypes", "inputShapes",
    )  # fmt: skip
    where = _without_functions(database, names, writer)
    for row in database.rows("PYTORCH_API", columns, where):
        start, end, thread, kind, connection, name, sequence, dtypes, shapes = row
        if (kind, name) not in categories:
            categories[kind, name] = _category(names.api_types.get(known(kind), ""), names.text(name))
        category = categories[kind, name]
        if category == PYTHON_FUNCTIONS:
            writer.timeline.skipped[PYTHON_FUNCTIONS] += 1
            continue
        text = names.name(name)
        numbers = lists.get(known(connection)) or [known(connection)]
        args = AscendArgs(sequence=known(sequence))
        if category in ("enqueue", "dequeue"):
            args.queued = numbers[0]
        _set_inputs(args, names, dtypes, shapes)
        event = writer.add("framework", text, (start, end), writer.thread(thread), args, category)
        if category == "cpu_op":
            for number in numbers:
                found[number].append(event)
    return found


def _without_functions(database: Database, names: Names, writer: Writer) -> str:
    """A condition that leaves out, after counting them, Python functions other than modules: most rows, with stacks."""
    kinds = ", ".join(str(number) for number, name in names.api_types.items() if _CATEGORIES.get(name) == _FUNCTION)
    if not database.has("PYTORCH_API") or database.lacking("PYTORCH_API", ["type", "name"]):
        return ""
    modules = ", ".join(map(str, names.numbers_of(MODULE_PREFIX)))
    functions = f"type IN ({kinds}) AND name NOT IN ({modules})"
    writer.timeline.skipped[PYTHON_FUNCTIONS] += database.count("PYTORCH_API", functions)
    return f"({functions}) IS NOT TRUE"  # nor unknown


def _connection_lists(database: Database) -> dict[int, list[int]]:
    """Number in PYTORCH_API → connections that it stands for."""
    found: dict[int, list[int]] = defaultdict(list)
    for key, connection in database.rows("CONNECTION_IDS", ("id", "connectionId")):
        found[known(key)].append(known(connection))
    return dict(found)


def _category(api_type: str, name: str) -> str:
    """Category that a timeline gives such a row, ``PYTHON_FUNCTIONS`` for those that are let go of.

    Older exports do not tell the ends of the queue from operators.
    """
    for category in ("enqueue", "dequeue"):
        if name.lower().partition("@")[0] == category:
            return category
    found = _CATEGORIES.get(api_type, "cpu_op")
    return PYTHON_FUNCTIONS if found == _FUNCTION and not name.startswith(MODULE_PREFIX) else found


def _set_inputs(args: AscendArgs, names: Names, dtypes: Value, shapes: Value) -> None:
    """Types and shapes of an operator's inputs; some versions write each into the column of the other."""
    types, dims = names.text(dtypes), names.text(shapes)
    if _LETTER.search(dims) and not _LETTER.search(types):
        types, dims = dims, types
    if types or dims:
        args.dtypes, args.dims = names.raw(types), names.raw(dims)


def _steps(database: Database, writer: Writer) -> None:
    """Steps that only a table of their own tells, on the thread with most operators."""
    rows = writer.timeline.rows["framework"]
    if not rows or any(str(event.name).startswith(_STEP) for event in rows):
        return
    busiest = min(writer.operators, key=lambda thread: (-writer.operators[thread], thread))
    for number, start, end in database.rows("STEP_TIME", ("id", "startNs", "endNs")):
        writer.add("framework", f"{_STEP}{number}", (start, end), busiest, AscendArgs(), "cpu_op")


def _cann(database: Database, names: Names, writer: Writer) -> None:
    columns = ("startNs", "endNs", "globalTid", "type", "connectionId", "name")
    for start, end, thread, kind, connection, name in database.rows("CANN_API", columns):
        level = names.api_types.get(known(kind), "")
        text = f"{_LEVELS.get(level, 'Api')}@{names.name(name)}"
        pid, tid = writer.thread(thread)
        args = AscendArgs(connection=known(connection))
        writer.add("cann", text, (start, end), (writer.process(CANN, pid=int(pid)), tid), args)


def _other_host_rows(database: Database, names: Names, writer: Writer) -> None:
    """Ranges and marks of the user; garbage collections are counted as in a timeline."""
    columns = ("startNs", "endNs", "globalTid", "message", "eventType")
    for start, end, thread, message, kind in database.rows("MSTX_EVENTS", columns):
        args = AscendArgs(range_type=names.range_types.get(known(kind), ""))
        writer.add("framework", names.name(message), (start, end), writer.thread(thread), args)
    collections = sum(1 for _ in database.rows("GC_RECORD", ("startNs",)))
    writer.timeline.skipped["rows of Python GC"] += collections


def _draw_arrows(
    timeline: Timeline, operators: dict[int, list[AscendEvent]], launched: dict[int, list[AscendEvent]]
) -> None:
    """From each operator to what it put on a device.

    A connection that two operators name joins a forward to its backward operator, and says nothing of devices.
    """
    for number, tails in operators.items():
        heads = launched.get(number, [])
        if number > 0 and len(tails) == 1 and heads:
            timeline.arrows["op"] += [_end("s", number, tails[0]), *(_end("f", number, head) for head in heads)]


def _end(phase: str, number: int, event: AscendEvent) -> AscendEvent:
    return AscendEvent(ph=phase, id=number, pid=event.pid, tid=event.tid, ts=event.ts)


def _notes(database: Database, names: Names) -> tuple[str, ...]:
    lost: dict[str, list[str]] = defaultdict(list)
    for table, (what, *signs) in _TABLES.items():
        if not database.has(table) and any(map(database.has, signs)):
            lost[what].append(table)
    for table, columns in _LOSSES.items():
        for column in database.lacking(table, list(columns)):
            lost[columns[column]].append(f"{table}.{column}")
    found = [f"{database.name}: {what} cannot be told without {', '.join(of)}" for what, of in lost.items()]
    if names.unknown:
        found.append(f"{database.name}: {names.unknown} rows have a name that is not in STRING_IDS")
    return (*dict.fromkeys(database.damaged), *found)
