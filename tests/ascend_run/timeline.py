"""``trace_view.json``: process by process, as torch_npu lays it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.ascend_run.recorded import Group, Rank, Row
from tests.ascend_run.streams import Task
from tests.ascend_run.words import DTYPES, ENGINE, operator_name

if TYPE_CHECKING:
    from tests.ascend_run import Written

Event = dict[str, Any]
_CANN, _HARDWARE, _HCCL = 7, 13, 15  # places of msprof's processes
_UNNUMBERED = {"Sequence number": -1, "Fwd thread id": 0}
_PLANES = 16  # threads of a communicator: its operators, then its planes


def timeline(rank: Rank, tasks: list[Task], written: Written) -> list[Event]:
    """All rows of one rank; level 0 has neither CANN's calls nor planes nor connections."""
    detailed = written.level > 0
    threads = sorted({row.tid for row in (*rank.operators, *rank.ranges, *rank.calls)})
    taker = threads[-1] + 1  # of the task queue
    return [
        *_named(rank.pid, "Python", "CPU", {tid: f"Thread {tid}" for tid in (*threads, taker)}),
        *_framework(rank, written),
        *_queue(rank, tasks, taker, operators=written.operators),
        *(_cann(rank, tasks, taker) if detailed else ()),
        *_hardware(rank, tasks, connections=detailed),
        *_communication(rank, tasks, planes=detailed),
        *(_arrows(rank, tasks) if written.operators else ()),
    ]


def microseconds(ns: int) -> str:
    """With all digits."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def _span(name: str, place: tuple[int, int], span: tuple[int, int], args: Event, category: str = "") -> Event:
    start, end = span
    event = {"ph": "X", "name": name, "pid": place[0], "tid": place[1], "ts": microseconds(start)}
    return event | {"dur": (end - start) / 1000, "args": args} | ({"cat": category} if category else {})


def _named(pid: int, name: str, label: str, threads: dict[int, str]) -> Iterator[Event]:
    process = (("process_name", 0, {"name": name}), ("process_labels", 0, {"labels": label}))
    for kind, tid, args in (*process, *(("thread_name", tid, {"name": text}) for tid, text in threads.items())):
        yield {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _process(rank: Rank, place: int) -> int:
    return rank.pid << 10 | place << 5 | rank.device


def _part(call: Row, first: int, last: int) -> tuple[int, int]:
    """From one to another percentage of a call's time."""
    length = call.end - call.start
    return call.start + length * first // 100, call.start + length * last // 100


def _framework(rank: Rank, written: Written) -> Iterator[Event]:
    """Operators and ranges. The engine's own range around a backward node bears no number, the node inside does."""
    for row in rank.ranges:
        if written.ranges or "#" in row.name:  # steps and optimizers are torch's own
            yield _span(row.name, (rank.pid, row.tid), (row.start, row.end), _UNNUMBERED, "cpu_op")
    for row in rank.operators if written.operators else ():
        name, args = operator_name(row.name), Event(_UNNUMBERED)
        if not name.startswith(ENGINE):
            args |= {key: row.args[key] for key in _UNNUMBERED if key in row.args}
        if "Input Dims" in row.args:
            dims = (",".join(map(str, shape)) for shape in row.args["Input Dims"])
            args |= {"Input Dims": ";\r\n".join(dims), "Input type": ";\r\n".join(row.args["Input type"])}
        if "Collective name" not in row.args:  # those torch_npu calls otherwise, see _queue
            yield _span(name, (rank.pid, row.tid), (row.start, row.end), args, "cpu_op")


def _queue(rank: Rank, tasks: list[Task], taker: int, *, operators: bool) -> Iterator[Event]:
    """Both ends of the queue for each task: who puts it, inside the operator that asks, and who takes it."""
    for number, task in enumerate(tasks):
        what, put, entry = task.kernel.call, (rank.pid, task.call.tid), {"correlation_id": number}
        if operators and task.kernel.operator:
            yield _span(task.kernel.operator, put, _part(task.call, 0, 31), _UNNUMBERED, "cpu_op")
        if operators:
            yield _span(what, put, _part(task.call, 1, 30), _UNNUMBERED, "cpu_op")
        yield _span("Enqueue", put, _part(task.call, 5, 25), entry, "enqueue")
        yield _span(f"Dequeue@{what}", (rank.pid, taker), _part(task.call, 30, 100), entry, "dequeue")


def _cann(rank: Rank, tasks: list[Task], taker: int) -> Iterator[Event]:
    """Calls of CANN: those of the queue's taker, and the host's own waits."""
    pid, host = _process(rank, _CANN), {call.tid for call in rank.calls}
    yield from _named(pid, "CANN", "CPU", {tid: f"Thread {tid}" for tid in (*host, taker)})
    for call in (call for call in rank.calls if call.name == "cudaDeviceSynchronize"):
        args = {"connection_id": call.args["correlation"], "item_id": "0"}
        yield _span("AscendCL@aclrtSynchronizeDevice", (pid, call.tid), (call.start, call.end), args)
    for task in tasks:
        joined, api = {"connection_id": task.connection}, f"AscendCL@{task.kernel.api}"
        if not task.kernel.type:
            yield _span(api, (pid, taker), _part(task.call, 35, 90), {"item_id": "0", **joined})
            continue
        yield _span(api, (pid, taker), _part(task.call, 32, 95), {"item_id": "0"})
        yield _span("Node@launch", (pid, taker), _part(task.call, 35, 90), {"item_id": task.kernel.name, **joined})


def _hardware(rank: Rank, tasks: list[Task], *, connections: bool) -> Iterator[Event]:
    """Tasks of the device's streams; a collective is a wait for a notify, then copies."""
    pid, streams = _process(rank, _HARDWARE), sorted({task.stream for task in tasks})
    yield from _named(pid, "Ascend Hardware", f"NPU {rank.device}", {n: f"Stream {n}" for n in streams})
    for task in tasks:
        parts = [(task.kernel.name, task.kernel.core, (task.start, task.end))]
        if task.exchange:
            moves = task.exchange.moves
            parts = [("Notify Wait", "Notify Wait", (task.start, moves)), ("SDMA", "SDMA", (moves, task.end))]
        for name, kind, span in parts:
            joined = {"connection_id": task.connection} if connections else {}
            yield _span(name, (pid, task.stream), span, {"Task Type": kind, "Physic Stream Id": task.stream, **joined})


def _communication(rank: Rank, tasks: list[Task], *, planes: bool) -> Iterator[Event]:
    """HCCL's operators, and on a plane below each communicator the wait for the others, then the transfer."""
    pid, threads = _process(rank, _HCCL), _group_threads(tasks)
    for task in tasks:
        if (exchange := task.exchange) is None:
            continue
        group, span = threads[exchange.group], (task.start, task.end)
        args = {"data_type": DTYPES[task.args["dtype"]], "alg_type": "MESH-RING-NA", "count": exchange.count}
        joined = {"connection_id": task.connection} if planes else {}
        yield _span(exchange.operator, (pid, group), span, args | joined)
        ends = {"src rank": exchange.own, "dst rank": exchange.partner, "stream id": task.stream, "size(Byte)": 0}
        if planes:
            yield _span("Notify_Wait", (pid, group + 1), (task.start, exchange.moves), ends)
            yield _span("Memcpy", (pid, group + 1), (exchange.moves, task.end), ends | {"size(Byte)": exchange.count})
    names = {thread: f"Group {thread // _PLANES} Communication" for thread in threads.values()}
    names |= {thread + 1: "Plane 0" for thread in names} if planes else {}
    yield from _named(pid, "Communication", f"NPU {rank.device}", names)


def _group_threads(tasks: list[Task]) -> dict[Group, int]:
    """Thread of every communicator, by first use."""
    groups = dict.fromkeys(task.exchange.group for task in tasks if task.exchange)
    return {group: _PLANES * place for place, group in enumerate(groups)}


def _arrows(rank: Rank, tasks: list[Task]) -> Iterator[Event]:
    """From the operator that asked to the work, drawn at every level."""
    threads = _group_threads(tasks)
    for task in (task for task in tasks if task.kernel.type):
        head = (_process(rank, _HARDWARE), task.stream)
        if task.exchange:
            head = (_process(rank, _HCCL), threads[task.exchange.group])
        tail = (rank.pid, task.call.tid)
        for ph, (pid, tid), at in (("s", tail, _part(task.call, 1, 1)[0]), ("f", head, task.start)):
            place = {"pid": pid, "tid": tid, "ts": microseconds(at)}
            yield {"ph": ph, "bp": "e", "name": "torch_to_npu", "cat": "async_npu", "id": task.start, **place}
