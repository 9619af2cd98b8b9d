"""Timelines of other versions, devices and jobs than those at hand; expected values are written in the builder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import parsers
from parsers._chrome_stream import ChromeStream
from parsers._comm_names import kind_of_kernel
from parsers.ascend.devices import by_device
from parsers.ascend.events import Timeline, read_timeline
from parsers.ascend.folder import Role, role_of
from parsers.ascend.hccl import HcclOp, buffer_counts, op_of_name
from parsers.ascend.rows import AscendContent, read_rows
from parsers.ascend.tasks import task
from replay.graph.build import build
from replay.report.accuracy import replay_error_pct
from replay.simulate.engine import simulate
from replay.trace import MISSING, CollectiveKind, EventKind, Trace
from tests.parsers.ascend import folders
from tests.parsers.ascend import timelines as make
from tests.parsers.ascend.folders import Event


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


NAMES = """
hcom_allReduce__674_0_1                       allReduce       ALL_REDUCE      674 0   host
hcom_broadcast__501_12@17522688603477080501   broadcast       BROADCAST       501 12  host
hcom_allGatherv__674_3_1                      allGatherv      ALL_GATHER      674 3   host
hcom_reduceScatterv__674_-1_1                 reduceScatterv  REDUCE_SCATTER  674 -1  host
hcom_alltoallvc__674_3_1                      alltoallvc      ALL_TO_ALL      674 3   host
hcom_scatter__674_3_1                         scatter         SCATTER         674 3   host
hcom_receive__447_18_1                        receive         RECV            447 18  host
hcom_BatchSendRecv__128_4_1                   BatchSendRecv   SEND_RECV       128 4   host
hccl_barrier__128_4_1                         barrier         BARRIER         128 4   host
hcom_alltoallv_AicpuKernel_833_2_1            alltoallv       ALL_TO_ALL      833 2   served
MatmulAllReduceMc2AicpuKernel_467_127_1       MatmulAllReduce ALL_REDUCE      467 127 served
MatmulAllReduceAicpu_724_2_1                  MatmulAllReduce ALL_REDUCE      724 2   served
"""


@pytest.mark.parametrize("line", NAMES.strip().splitlines())
def test_names_of_operators(line: str) -> None:
    """Spellings of CANN's versions, of the device's own processor, and of fused kernels."""
    name, operator, kind, suffix, counter, way = line.split()
    op = op_of_name(name, 0, 1)
    assert (op.operator, op.kind.name, op.suffix, op.counter) == (operator, kind, suffix, int(counter))
    assert op.served == (way == "served")


@pytest.mark.parametrize(
    ("operator", "buffers"),
    [
        ("allReduce", (100, 100)),
        ("allGather", (100, 800)),
        ("reduceScatter", (800, 100)),
        ("alltoall", (800, 800)),
        ("alltoallv", (100, MISSING)),
        ("alltoallvc", (100, MISSING)),
        ("allGatherv", (MISSING, 100)),
        ("scatter", (800, 100)),
        ("send", (100, 100)),
    ],
)
def test_a_count_is_of_one_part_or_of_all(operator: str, buffers: tuple[int, int]) -> None:
    """As HCCL's interface defines the count of each operator: 100 elements in a group of 8 ranks."""
    op = replace(op_of_name(f"hcom_{operator}__674_0_1", 0, 1), count=100)
    assert buffer_counts(op, 8) == buffers


def test_without_the_size_of_the_group_one_part_is_known() -> None:
    """What all parts come to is not guessed."""
    op = replace(op_of_name("hcom_allGather__674_0_1", 0, 1), count=100)
    assert buffer_counts(op, MISSING) == (100, MISSING)


def only_op(content: AscendContent) -> HcclOp:
    """The collective of a timeline that has one."""
    (op,) = content.ops.values()
    return op


@pytest.mark.parametrize(("name", "waits", "expected"), [("hcom_send_", 1, 30), ("hcom_allGather_", 2, 50)])
def test_rdma_payloads_last_until_their_acknowledgement(name: str, waits: int, expected: int) -> None:
    """Two payloads posted from 10 on; the notify at 40, of the barrier at 60: 30 us, and 50 us with the barrier."""
    ends = {1: 40, 2: 60}
    tasks = [("RDMASend", (10, 10.1), 1 << 20), ("RDMASend", (11, 11.1), 1 << 20)]
    for number in range(1, waits + 1):
        end = ends[number]
        tasks += [("RDMASend", (end - 15, end - 14.9), 4), ("Notify_Wait", (end - 12, end), 0)]
    rows = [make.sub_task(task_name, span, ranks=(0, 1), size=size) for task_name, span, size in tasks]
    big = make.operator(f"{name}_123_0_1", (5, 100), count=4, data_type="FP32")
    assert only_op(content_of([*make.eager(), *make.collectives(big, *rows)])).transfer_ns == expected * 1000


def test_a_batched_exchange_with_one_partner_names_it() -> None:
    """Sub-tasks name their own rank as the source; with two partners there is none to name."""
    big = make.operator("hcom_batchSendRecv__123_0_1", (5, 100), count=4, data_type="BFP16")
    one = make.sub_task("Memcpy", (10, 20), ranks=(1, 3))
    two = make.sub_task("Memcpy", (30, 40), ranks=(1, 2))
    assert only_op(content_of([*make.eager(), *make.collectives(big, one)])).partner == 3
    assert only_op(content_of([*make.eager(), *make.collectives(big, one, two)])).partner == MISSING


@pytest.mark.parametrize(
    ("link", "moved", "kind"),
    [
        ("Memcpy", 1 << 20, CollectiveKind.RECV),
        ("Memcpy", 0, CollectiveKind.SEND),
        ("Memcpy", 1 << 19, CollectiveKind.SEND_RECV),
        ("RDMASend", 1 << 20, CollectiveKind.SEND),
        ("RDMASend", 0, CollectiveKind.RECV),
        ("RDMASend", 1 << 19, CollectiveKind.SEND_RECV),
    ],
)
def test_a_batched_exchange_of_one_direction_is_a_send_or_a_receive(
    tmp_path: Path, link: str, moved: int, kind: CollectiveKind
) -> None:
    """1 MiB in all: receivers copy inside of a node, senders post RDMA; half of it is one direction of two."""
    big = make.operator("hcom_batchSendRecv__123_0_1", (5, 100), count=1 << 19, data_type="BFP16", rank_size=4)
    rows = [make.sub_task("Notify_Wait", (6, 8), ranks=(1, 3), size=0), make.sub_task("Memcpy", (8, 9), ranks=(1, 1))]
    rows += [make.sub_task(link, (10, 20), ranks=(1, 3), size=moved)] if moved or link == "RDMASend" else []
    trace = parsers.read([make.write(tmp_path, [*make.eager(), *make.collectives(big, *rows)])])
    assert isinstance(trace, Trace)
    assert [CollectiveKind(code) for code in trace.collectives.kind] == [kind]
    assert (trace.collectives.peer.tolist(), trace.collectives.nbytes.tolist()) == ([3], [1 << 20])
    assert [trace.name_of(row) for row in np.flatnonzero(trace.comm >= 0).tolist()] == ["hcom_batchSendRecv_"]


@pytest.mark.parametrize("thread", ["Group 7 Aicpu Communication", "Communication", "Communication OP"])
def test_threads_of_groups_go_by_several_names(thread: str) -> None:
    """Operators on them, also one that does not begin with hcom_; planes are no operators."""
    big = make.operator("allgatherAicpuKernel", (5, 100), count=4, data_type="FP32")
    task_row = make.sub_task("Memcpy", (10, 20), ranks=(0, 1))
    op = only_op(content_of([*make.eager(), *make.collectives(big, task_row, group=thread)]))
    assert (op.kind, op.transfer_ns) == (CollectiveKind.ALL_GATHER, 10_000)


@pytest.mark.parametrize(("written", "dtype"), [("BFP16", "BFloat16"), ("N/A", ""), ("RESERVED", ""), ("int8", "Char")])
def test_element_types(written: str, dtype: str) -> None:
    """As HCCL spells them, and where it does not know."""
    big = make.operator("hcom_allReduce__123_0_1", (5, 100), count=2**32 - 1, data_type=written)
    op = only_op(content_of([*make.eager(), *make.collectives(big)]))
    assert (op.dtype, op.count) == (dtype, MISSING)


def test_a_fused_kernel_and_its_server_are_one_op() -> None:
    """The compute kernel alone is an op: its communication row, the server's kernel, phases and copies are not."""
    kernel = make.work("aclnnMatmulAllReduce_MatmulAllReduce", (300, 400), 7, kind="MIX_AIC")
    server = make.work("MatmulAllReduceMc2AicpuKernel", (295, 398), 8, stream=9, kind="AI_CPU")
    phase = folders.row(folders.HARDWARE, 9, "TaskWaitRequest", (296, 310), args={"Task Id": 3})
    copy = make.work("SDMA", (320, 340), -1, stream=9, kind="SDMA")
    big = make.operator(
        "MatmulAllReduceMc2AicpuKernel_123_0_1", (305, 397), count=64, data_type="BFP16", connection_id=7
    )
    task_row = make.sub_task("Memcpy", (320, 340), ranks=(0, 1))
    content = content_of([*make.eager(), kernel, server, phase, copy, *make.collectives(big, task_row)])
    assert names_of(content, EventKind.KERNEL, EventKind.MEMCPY) == ["Mul", "Add", kernel["name"]]
    (row,) = content.ops
    assert content.rows.names[content.rows.name[row]] == kernel["name"]
    assert content.rows.comms[row].in_nelems == 64


def test_a_collective_of_the_devices_own_processor_is_one_op() -> None:
    """Its kernel runs longer than the collective, under another connection."""
    server = make.work("hcom_allGather_AicpuKernel", (290, 420), 8, stream=9, kind="AI_CPU")
    big = make.operator("hcom_allGather_AicpuKernel_123_0_1", (305, 397), count=64, data_type="BFP16", connection_id=6)
    content = content_of([*make.eager(), server, *make.collectives(big)])
    assert names_of(content, EventKind.KERNEL) == ["Mul", "Add", "hcom_allGather_"]


def test_a_collective_that_is_written_twice_is_one_op() -> None:
    """By the host and by the processor that launched it: the host's row, with the time that the other's planes tell."""
    host = make.operator("hcom_allGather__123_4_1", (300, 420), count=64, data_type="BFP16", connection_id=6)
    other = make.operator("hcom_allGather_AicpuKernel_123_0_1", (305, 397), thread=3, count=64, data_type="BFP16")
    names = folders.named(folders.HCCL, "Communication", {3: "Group 7 Aicpu Communication", 4: "Plane 0"}, "NPU 0")
    task_row = make.sub_task("Memcpy", (310, 350), ranks=(0, 1), plane=4)
    content = content_of([*make.eager(), *make.collectives(host, other, task_row), *names])
    assert names_of(content, EventKind.KERNEL) == ["Mul", "Add", "hcom_allGather_"]
    assert content.skipped["collectives written twice"] == 1
    op = only_op(content)
    assert (op.counter, op.dur_ns, op.transfer_ns) == (4, 120_000, 40_000)


@pytest.mark.parametrize("name", ["AivKernel", "aiv_all_reduce_910b_bfloat16_t", "hcom_allReduce_AivKernel"])
def test_a_collective_on_vector_cores_is_one_op(name: str) -> None:
    """Its kernel is no op beside its row, whatever connects them; without a row it is the collective."""
    kernel = make.work(name, (306, 396), kind="AI_VECTOR_CORE", stream=9)
    big = make.operator("hcom_allReduce__123_0_1", (305, 397), count=64, data_type="BFP16")
    task_row = make.sub_task("AivKernel", (306, 396), ranks=(0, 1))
    content = content_of([*make.eager(), kernel, *make.collectives(big, task_row)])
    assert names_of(content, EventKind.KERNEL) == ["Mul", "Add", "hcom_allReduce_"]
    assert kind_of_kernel(name) is not None


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


def test_buffers_follow_from_the_size_of_the_group(tmp_path: Path) -> None:
    """100 halves of each of 8 ranks: 200 bytes in, 1600 out."""
    big = make.operator("hcom_allGather__123_0_1", (5, 100), count=100, data_type="FP16", rank_size=8)
    trace = parsers.read([make.write(tmp_path, [*make.eager(), *make.collectives(big)])])
    assert isinstance(trace, Trace)
    c = trace.collectives
    assert (c.in_nbytes.tolist(), c.out_nbytes.tolist(), c.sequence.tolist()) == ([200], [1600], [0])


@pytest.mark.parametrize(("told", "size"), [({"rank_size": 8}, 8), ({}, 4)])
def test_a_size_that_only_partners_show_is_said_to_be_a_bound(tmp_path: Path, told: dict[str, int], size: int) -> None:
    """Rank 1 exchanges with rank 3: at least four members, unless the operator tells eight."""
    big = make.operator("hcom_allGather__123_0_1", (5, 100), count=100, data_type="FP16", **told)
    rows = make.collectives(big, make.sub_task("Memcpy", (10, 20), ranks=(1, 3)))
    trace = parsers.read([make.write(tmp_path, [*make.eager(), *rows])])
    assert isinstance(trace, Trace)
    assert [group.size for group in trace.groups] == [size]
    assert ("sizes of groups, as few as show" in trace.health.inferred) == (not told)


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
