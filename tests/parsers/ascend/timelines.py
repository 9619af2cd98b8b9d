"""Variants of hand-made timelines: how other versions, devices and jobs write them. Rows are those of ``folders``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from parsers._chrome_stream import ChromeStream
from parsers.ascend.events import Timeline, read_timeline
from parsers.ascend.hccl import HcclOp
from parsers.ascend.rows import AscendContent, read_rows
from replay.trace import EventKind
from tests.parsers.ascend.folders import CANN, HARDWARE, HCCL, Event, named, row

NO_MODEL = 2**32 - 1
Span = tuple[float, float]


def write(folder: Path, events: list[Event], name: str = "trace_view.json") -> Path:
    """A bare timeline."""
    path = folder / name
    path.write_text(json.dumps(events), encoding="utf-8")
    return path


def call(name: str, span: Span, connection: int = -1, *, tid: int = 101, pid: int = CANN) -> Event:
    """A CANN row."""
    return row(pid, tid, name, span, args={"connection_id": connection, "item_id": "0", "level": "acl"})


def work(name: str, span: Span, connection: int = -1, *, kind: str = "AI_CORE", **place: Any) -> Event:
    """A device task; ``place`` may name the process, the stream, the model, and the task's number in it."""
    told = {"Task Type": kind, "Model Id": place.get("model", NO_MODEL), "Task Id": place.get("number", 0)}
    told["connection_id"] = connection
    return row(place.get("pid", HARDWARE), place.get("stream", 2), name, span, args=told)


def processes(*, host: bool = True) -> list[Event]:
    """Names of the processes and threads that the rows above are of."""
    device = [*named(HARDWARE, "Ascend Hardware", {2: "Stream 2", 9: "Stream 9"}, "NPU 0")]
    return [*(named(CANN, "CANN", {101: "Thread 101"}, "CPU") if host else []), *device]


def eager() -> list[Event]:
    """Two launches of one thread, each with its kernel."""
    calls = [call("Node@launch", (10, 20), 1), call("Node@launch", (30, 40), 2)]
    return [*processes(), *calls, work("Mul", (100, 150), 1), work("Add", (160, 200), 2)]


def graph(executions: int = 2, calls: int = 2, first_call: float = 10, period: float = 200) -> list[Event]:
    """Model 7, two tasks, executed every ``period`` us from 100 on, after calls every 50 us."""
    rows = [
        call("AscendCL@aclmdlRIExecuteAsync", (first_call + 50 * n, first_call + 20 + 50 * n), 500 + n)
        for n in range(calls)
    ]
    for n in range(executions):
        at = 100 + period * n
        rows.append(work("Mul", (at, at + 50), 11, model=7, number=1))
        rows.append(work("Add", (at + 60, at + 90), 12, model=7, number=2))
    return [*processes(), *rows]


def mindspore() -> list[Event]:
    """Operators of MindSpore, its CPU operators, and scopes that it derives; processes have small numbers."""
    host = row(1, 101, "PynativeFramework::RunOp::Add", (5, 60), cat="cpu_op", args={"Sequence number": -1})
    own = row(2, 101, "Default/Cast-op1", (70, 80), args={"type": "Cast"})
    scope = row(3, 0, "network-WithLossCell", (100, 200))
    names = [("MindSpore", 1), ("CPU OP", 2), ("Scope Layer", 3)]
    return [*(end for name, pid in names for end in named(pid, name, {101: "Thread 101"}, "CPU")), host, own, scope]


def as_float(event: Event) -> Event:
    """The row as versions write it that turn times into floats."""
    return {**event, "ts": float(event["ts"])} if "ts" in event else event


def second_device(shift: float = 0) -> list[Event]:
    """Kernels of device 1 beside those of ``eager``: its calls are on a thread of their own and on the first one's."""
    pid = HARDWARE + 1
    calls = [call("Node@launch", (50, 60), 3), call("Node@launch", (12, 22), 4, tid=102)]
    calls.append(call("AscendCL@aclrtSynchronizeStream", (24, 30), 9, tid=102))
    rows = [work("Sub", (100 + shift, 130), 3, pid=pid), work("Div", (140, 170), 4, pid=pid)]
    return [*named(pid, "Ascend Hardware", {2: "Stream 2"}, "NPU 1"), *calls, *rows]


def operator(name: str, span: Span, *, thread: int = 0, **args: Any) -> Event:
    """A row of a group's thread."""
    return row(HCCL, thread, name, span, args=args)


def sub_task(name: str, span: Span, *, ranks: tuple[int, int], plane: int = 1, size: int = 1 << 20) -> Event:
    """A row of a plane's thread."""
    args = {"src rank": ranks[0], "dst rank": ranks[1], "size(Byte)": size, "stream id": 9}
    return row(HCCL, plane, name, span, args=args)


def collectives(*rows: Event, group: str = "Group 7 Communication") -> list[Event]:
    """A communication process with one group and two planes."""
    return [*named(HCCL, "Communication", {0: group, 1: "Plane 0", 2: "Plane 1"}, "NPU 0"), *rows]


def of_2023(events: list[Event], group: str) -> list[Event]:
    """The rows as in the first versions: times are numbers, arrows stand for connections, names end in ``@group``."""
    calls = {e["args"]["connection_id"]: e for e in reversed(events) if e["pid"] == CANN and e["ph"] == "X"}
    found = []
    for event in events:
        old = {**event, "args": dict(event.get("args", {}))}
        number = old["args"].pop("connection_id", -1)
        if event["ph"] == "X" and event["pid"] in (HARDWARE, HCCL) and number in calls:
            ends = [("s", calls[number]), ("f", event)]
            found += [{"ph": ph, "cat": "HostToDevice", "id": number, **_place(end)} for ph, end in ends]
        if event["name"].startswith("hcom_"):
            old["name"] += f"@{group}"
        if old["args"].get("name") == "Group 0 Communication":
            old["args"]["name"] = "Communication OP"
        found.append(old)
    return list(map(as_float, found))


def _place(event: Event) -> dict[str, Any]:
    return {"name": "HostToDevice", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"]}


def timeline_of(events: list[Event]) -> Timeline:
    """The rows as sorted while reading."""
    return read_timeline([ChromeStream([json.dumps(events).encode()], "trace_view.json")])


def content_of(events: list[Event]) -> AscendContent:
    """What a timeline holds."""
    return read_rows(timeline_of(events), keep_modules=True)


def names_of(content: AscendContent, *kinds: EventKind) -> list[str]:
    """Names of all rows, or of those of some kinds, in order."""
    rows = content.rows
    wanted = np.isin(rows.kind, kinds) if kinds else np.ones(len(rows), np.bool_)
    return [rows.names[code] for code in rows.name[wanted].tolist()]


def only_op(content: AscendContent) -> HcclOp:
    """The collective of a timeline that has one."""
    (op,) = content.ops.values()
    return op
