"""Timelines of other versions, devices and jobs than those at hand; expected values are written in the builder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import parsers
from parsers._chrome_stream import ChromeStream
from parsers.ascend.devices import by_device
from parsers.ascend.events import read_timeline
from parsers.ascend.folder import Role, role_of
from parsers.ascend.rows import AscendContent, read_rows
from parsers.ascend.tasks import task
from replay.graph.build import build
from replay.report.accuracy import replay_error_pct
from replay.simulate.engine import simulate
from replay.trace import EventKind, Trace
from tests.parsers.ascend import folders
from tests.parsers.ascend import timelines as make
from tests.parsers.ascend.timelines import content_of, names_of, only_op, timeline_of


def launches(content: AscendContent) -> list[tuple[str, float, str]]:
    """(call, its start in us after the first row, what it launched) of every device row that a call launched."""
    rows = content.rows
    calls = {int(rows.correlation[at]): at for at in np.flatnonzero(rows.kind == EventKind.RUNTIME)[::-1].tolist()}
    device = np.flatnonzero(np.isin(rows.kind, (EventKind.KERNEL, EventKind.MEMCPY)))
    first = int(rows.start_ns.min())
    pairs = [(calls[number], row) for row in device.tolist() if (number := int(rows.correlation[row])) in calls]
    return [
        (rows.names[rows.name[call]], (int(rows.start_ns[call]) - first) / 1000, rows.names[rows.name[row]])
        for call, row in pairs
    ]


def test_a_model_is_launched_by_the_call_that_executes_it() -> None:
    """Both tasks of both executions; their connections are of the capture, which was not recorded."""
    found = launches(content_of(make.graph()))
    call = "AscendCL@aclmdlRIExecuteAsync"
    assert sorted(found) == [(call, 0, "Add"), (call, 0, "Mul"), (call, 50, "Add"), (call, 50, "Mul")]


def test_executions_of_earlier_calls_stay_alone() -> None:
    """Three executions, at 100, 300 and 500 us, and the calls at 320 and 370 us: those of the later two."""
    found = launches(content_of(make.graph(executions=3, calls=2, first_call=220)))
    assert sorted({time for _, time, _ in found}) == [120, 170]  # the first row begins at 100 us
    assert len(found) == 4


def test_calls_whose_work_was_not_recorded_launch_nothing() -> None:
    """Of three calls the first two executed what was recorded."""
    found = launches(content_of(make.graph(executions=2, calls=3)))
    assert sorted({time for _, time, _ in found}) == [0, 50]


@pytest.mark.parametrize("first", ["Mul", "Add"])
def test_an_execution_that_was_cut_is_one(first: str) -> None:
    """The recording ends before Add of the second of two: Mul occurs twice, whichever stands first in the file."""
    *events, _ = make.graph()
    found = launches(content_of(sorted(events, key=lambda event: event["name"] != first)))
    call = "AscendCL@aclmdlRIExecuteAsync"
    assert sorted(found) == [(call, 0, "Add"), (call, 0, "Mul"), (call, 50, "Mul")]


def test_a_call_may_execute_its_model_many_times() -> None:
    """Data sunk into the device: six executions behind two calls that were made before all of them."""
    found = launches(content_of(make.graph(executions=6, calls=2)))
    assert [time for _, time, name in found if name == "Mul"] == [0, 0, 0, 50, 50, 50]


def test_a_graph_replays(tmp_path: Path) -> None:
    """One host call, its device graph behind it."""
    trace = parsers.read([make.write(tmp_path, make.graph(executions=6, calls=6, first_call=90, period=100))])
    assert isinstance(trace, Trace)
    graph = build(trace)
    assert replay_error_pct(graph, simulate(graph)) <= 3


def test_mindspore_rows_are_host_work_and_scopes_are_not() -> None:
    """Rows of both host processes on one thread; scopes are drawn from other rows."""
    content = content_of([*make.eager(), *make.mindspore()])
    assert names_of(content, EventKind.CPU_OP) == ["PynativeFramework::RunOp::Add", "Default/Cast-op1"]
    assert len({int(lane) for lane in content.rows.lane[content.rows.kind == EventKind.CPU_OP]}) == 1
    assert timeline_of(make.mindspore()).skipped["rows of Scope Layer"] == 1


def test_arrows_with_float_times_find_rows_with_exact_ones() -> None:
    """The framework's rows and arrows are floats, the tasks' times are texts; both name the same task."""
    host = [folders.row(folders.HOST, 100, "aten::mul", (10, 60), cat="cpu_op", args={"Sequence number": -1})]
    arrow = folders.arrow("async_npu", "torch_to_npu", (folders.HOST, 100, 10), (folders.HARDWARE, 2, 100))
    named = folders.named(folders.HOST, "Python", {100: "Thread 100"}, "CPU")
    events = [*named, *map(make.as_float, [*host, *arrow]), *make.processes(host=False), make.work("Mul", (100, 150))]
    content = content_of(events)
    assert launches(content) == [("aten::mul", 0, "Mul")]
    assert content.inferred["times written as floats, which keep 0.25 us"] == 1


def test_the_first_versions_say_the_same() -> None:
    """Ops and launches as in the newer form of the run; the group stands in the names of operators."""
    new, old = (content_of(events) for events in (folders.level1(), make.of_2023(folders.level1(), folders.GROUP)))
    assert sorted(names_of(old)) == sorted(names_of(new))
    assert [(call, op) for call, _, op in launches(old)] == [(call, op) for call, _, op in launches(new)]
    assert (only_op(old).group, only_op(old).transfer_ns) == (folders.GROUP, only_op(new).transfer_ns)
    assert old.inferred["times written as floats, which keep 0.25 us"] > 0


def test_exact_numbers_are_not_called_rounded() -> None:
    """JSON numbers of 19 digits, as some writers print them, lose nothing here."""
    text = json.dumps(make.eager()).replace('"ts": "', '"ts": ').replace('", "dur"', ', "dur"')
    content = read_rows(read_timeline([ChromeStream([text.encode()], "t")]), keep_modules=True)
    assert not any("floats" in reason for reason in content.inferred)
    assert int(content.rows.start_ns.min()) == 1717575960213967957


def test_devices_of_one_timeline_are_apart() -> None:
    """Calls go where their work ran, the wait of thread 102 with its launch; nothing is lost or doubled."""
    parts = by_device(timeline_of([*make.eager(), *make.second_device()]))
    first, second = (read_rows(part, keep_modules=True) for part in parts)
    assert (first.device, second.device) == (0, 1)
    assert names_of(first) == ["Node@launch", "Node@launch", "Mul", "Add"]
    assert names_of(second) == ["Node@launch", "Node@launch", "AscendCL@aclrtSynchronizeStream", "Sub", "Div"]
    assert len(launches(first)) == len(launches(second)) == 2


def test_sums_of_a_device_without_tasks_are_counted() -> None:
    """A device that was recorded, but did nothing, is no rank."""
    idle = [*folders.named(777, "Overlap Analysis", {0: "Free"}, "NPU 9"), folders.row(777, 0, "Free", (0, 300))]
    timeline = timeline_of([*make.eager(), *make.second_device(), *idle])
    assert len(by_device(timeline)) == 2
    assert timeline.skipped["derived rows of devices without tasks"] == 1


def test_a_thread_that_calls_two_devices_equally_often_is_of_the_first() -> None:
    """Whatever the order of the rows: the wait, which names no device, follows."""
    for order in (1, -1):
        calls = [make.call("Node@launch", (30 + at, 31 + at), number, tid=104) for at, number in enumerate((3, 1))]
        wait = make.call("AscendCL@aclrtSynchronizeDevice", (40, 45), tid=104)
        rows = [*make.eager(), *make.second_device(), *calls[::order], wait]
        first, _ = (read_rows(part, keep_modules=True) for part in by_device(timeline_of(rows)))
        assert "AscendCL@aclrtSynchronizeDevice" in names_of(first)


def test_one_device_is_left_as_it_is() -> None:
    """The very timeline."""
    timeline = timeline_of(make.eager())
    assert by_device(timeline) == [timeline]


def test_ranges_of_the_user_are_ranges() -> None:
    """MSTX rows lie in a process named after the program, be that Python; those drawn on the device are left out."""
    told = {"event_type": "push/pop", "domain": "default"}
    for program in ("python3", "python"):
        host = [
            *folders.named(7, program, {101: "Thread 101"}, "CPU"),
            folders.row(7, 101, "step", (0, 300), args=told),
        ]
        device = [*folders.named(8, "MSTX", {2: "Stream 2"}, "NPU 0"), folders.row(8, 2, "step", (90, 250), args=told)]
        assert names_of(content_of([*make.eager(), *host, *device]), EventKind.ANNOTATION) == ["step"]


def test_rows_without_names_of_processes_are_told_by_themselves() -> None:
    """A file that ends before its metadata."""
    bare = [event for event in folders.level1() if event["ph"] != "M"]
    whole, cut = content_of(folders.level1()), content_of(bare)
    assert sorted(names_of(cut)) == sorted(names_of(whole))


@pytest.mark.parametrize(
    ("name", "task_type", "kind"),
    [
        ("KERNEL_AICORE", "AI_CORE", EventKind.KERNEL),
        ("aclnnMax_Max_Max", "KERNEL_MIX_AIC", EventKind.KERNEL),
        ("Max", "AI_CORE", EventKind.KERNEL),
        ("DropOutGenMask", "DSA_SQE", EventKind.KERNEL),
        ("STARS_COMMON", "VPC_SQE", EventKind.KERNEL),
        ("MEMCPY_ASYNC", "PCIE_DMA_SQE", EventKind.MEMCPY),
        ("SDMA", "SDMA", EventKind.MEMCPY),
        ("MemSet", "AI_VECTOR_CORE", EventKind.MEMSET),
        ("Notify Wait", "Notify Wait", EventKind.SYNC),
        ("EVENT_WAIT", "EVENT_WAIT_SQE", EventKind.SYNC),
        ("CAPTURE_RECORD", "NOTIFY_RECORD_SQE", EventKind.SYNC),
        ("MEM_WAIT_VALUE", "UNKNOWN", EventKind.SYNC),
        ("Write Value", "Write Value", EventKind.SYNC),
        ("MODEL_EXECUTE", "PLACE_HOLDER_SQE", None),
        ("STREAM_ACTIVE", "C_CORE_SQE", None),
        ("EVENT_RESET", "PLACE_HOLDER_SQE", None),
        ("TaskWaitRequest", "", None),
        ("Writeback Data Context", "Writeback Data Context", None),
    ],
)
def test_tasks_are_what_the_runtime_calls_them(name: str, task_type: str, kind: EventKind | None) -> None:
    """Work, order or bookkeeping."""
    found = task(name, task_type)
    assert (found.kind, found.known) == (kind, True)


def test_tasks_of_unknown_type_are_work_and_named() -> None:
    """Better one op too many, said so, than one too few."""
    content = content_of([*make.eager(), make.work("Sort", (300, 310), kind="NEW_CORE")])
    assert content.inferred["device tasks of unknown type NEW_CORE, taken as work"] == 1
    assert "Sort" in names_of(content, EventKind.KERNEL)


def test_calls_that_level_0_forgot_to_take_out_are_host_work() -> None:
    """Rows of collectives remain, under a process without a name, and connections to calls that are gone."""
    left = make.call("Communication@hcom_allReduce_", (130, 150), 5)
    tasks = [*folders.hardware(), *folders.collective(planes=False), *folders.npu_arrows()]
    found, expected = content_of([*folders.framework(), *tasks, left]), content_of(folders.level0())
    assert launches(found) == launches(expected) != []
    assert "Communication@hcom_allReduce_" in names_of(found, EventKind.CPU_OP)


def test_calls_of_one_layer_alone_launch_nothing() -> None:
    """Level 1 of the first versions kept AscendCL's calls only: what the queue's taker launched is joined to it."""
    events = [event for event in folders.level1() if not event["name"].startswith("Node@")]
    assert launches(content_of(events)) == launches(content_of(folders.level0()))


def test_numbers_given_to_operators_are_nobody_elses() -> None:
    """Sub comes from an operator by its arrow; a call with the next number after the kernels' launched nothing."""
    host = [folders.row(folders.HOST, 100, "aten::sub", (50, 90), cat="cpu_op", args={"Sequence number": -1})]
    arrow = folders.arrow("async_npu", "torch_to_npu", (folders.HOST, 100, 50), (folders.HARDWARE, 2, 210))
    named = folders.named(folders.HOST, "Python", {100: "Thread 100"}, "CPU")
    idle = make.call("AscendCL@aclrtSynchronizeStream", (60, 80), 3)
    events = [*named, *host, *arrow, *make.eager(), idle, make.work("Sub", (210, 230))]
    rows = content_of(events).rows
    (kernel,) = (row for row in range(len(rows)) if rows.names[rows.name[row]] == "Sub")
    same = np.flatnonzero(rows.correlation == rows.correlation[kernel]).tolist()
    assert sorted(rows.names[rows.name[row]] for row in same) == ["Sub", "aten::sub"]


def test_an_operator_that_put_twice_launches_from_both_takes() -> None:
    """Level 0: each of two tasks of one operator comes from a queue entry of its own."""
    host = [folders.row(folders.HOST, 100, "aten::mul", (10, 60), cat="cpu_op", args={"Sequence number": -1})]
    for number, (put, take) in enumerate([(20, 62), (40, 72)]):
        args = {"correlation_id": number}
        host.append(folders.row(folders.HOST, 100, "Enqueue", (put, put + 5), cat="enqueue", args=args))
        host.append(folders.row(folders.HOST, 101, "Dequeue@Mul", (take, take + 8), cat="dequeue", args=args))
    tails = [(folders.HOST, 100, 10)] * 2
    arrows = [
        end
        for tail, at in zip(tails, (100, 160), strict=True)
        for end in folders.arrow("async_npu", "torch_to_npu", tail, (folders.HARDWARE, 2, at))
    ]
    named = folders.named(folders.HOST, "Python", {100: "Thread 100", 101: "Thread 101"}, "CPU")
    tasks = [make.work("Cast", (100, 150)), make.work("Mul", (160, 200))]
    found = launches(content_of([*named, *host, *arrows, *make.processes(host=False), *tasks]))
    assert found == [("Dequeue@Mul", 52, "Cast"), ("Dequeue@Mul", 62, "Mul")]


def test_stand_ins_for_launches_are_no_calls(tmp_path: Path) -> None:
    """torch_npu's files in Kineto's form draw a call without args at the time of the kernel."""
    step = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 7,
        "tid": 7,
        "ts": 100.0,
        "dur": 40,
        "args": {"Ev Idx": 1},
    }
    kernel = {"ph": "X", "cat": "kernel", "name": "MatMulV2", "pid": 0, "tid": 47, "ts": 160.0, "dur": 30}
    kernel["args"] = {"streamId": 47, "type": "KERNEL_AICORE"}
    stand_in = {"ph": "X", "cat": "privateuse1_runtime", "name": "MatMulV2", "pid": 7, "tid": 7, "ts": 160.0, "dur": 0}
    called = {**stand_in, "name": "aclrtMemcpyAsync", "ts": 120.0, "dur": 5, "args": {"correlation": 3}}
    text = json.dumps({"schemaVersion": 1, "traceEvents": [step, kernel, stand_in, called]})
    (tmp_path / "a.pt.trace.json").write_text(text, encoding="utf-8")
    trace = parsers.read([tmp_path / "a.pt.trace.json"])
    assert isinstance(trace, Trace)
    assert [trace.name_of(row) for row in np.flatnonzero(trace.kind == EventKind.RUNTIME).tolist()] == [
        "aclrtMemcpyAsync"
    ]
    assert trace.health.skipped["stand-ins for launches, at the time of their kernels"] == 1
    (lane,) = {int(code) for code in trace.lane[trace.kind == EventKind.KERNEL]}
    assert (trace.lanes[lane].device, trace.lanes[lane].stream) == (0, 47)


@pytest.mark.parametrize("shapes", [True, False])
def test_a_file_that_begins_with_operators_alone_is_recognised(*, shapes: bool) -> None:
    """Numbers for times, thousands of operators before the first name of a process."""
    args: dict[str, object] = {"Sequence number": -1, "Fwd thread id": 0}
    args |= {"Input Dims": "64,32;\r\n32,16", "Input type": "float;\r\nfloat"} if shapes else {}
    one = make.as_float(folders.row(folders.HOST, 100, "aten::mm", (10, 60), cat="cpu_op", args=args))
    assert role_of(json.dumps([one] * 99).encode()) == Role.TIMELINE
