"""HCCL operators: their names, buffers, time on the wire, partners, and the kernels that stand for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import parsers
from parsers._comm_names import kind_of_kernel
from parsers.ascend.hccl import buffer_counts, op_of_name
from replay.trace import MISSING, CollectiveKind, EventKind, Trace
from tests.parsers.ascend import folders
from tests.parsers.ascend import timelines as make
from tests.parsers.ascend.timelines import content_of, names_of, only_op

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
