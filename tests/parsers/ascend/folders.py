"""Hand-made Ascend output folders, after the layouts of torch_npu and msprof. Times are in microseconds from ``T0``.

One step: a matmul on stream 2, an all-reduce on stream 9 that waits for it, an add on stream 2 that waits for that. The
host puts both into the task queue on thread 100; thread 101 takes them out.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

T0 = Decimal("1717575960213957.957")
GROUP = "17522688603477080123"  # operators name its last three characters
HOST, HARDWARE, HCCL, CANN, OVERLAP = 100, 3170820512, 3170820576, 3170820320, 3170820832
Event = dict[str, Any]


def ts(us: float | str) -> str:
    """A time as these files write it: a string with all its digits."""
    return str(T0 + Decimal(str(us)))


def row(pid: int, tid: int, name: str, span: tuple[float, float], **more: Any) -> Event:
    """A complete event over ``span``; ``cat`` and ``args`` as given."""
    dur = float(Decimal(str(span[1])) - Decimal(str(span[0])))
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts(span[0]), "dur": dur, **more}


def named(pid: int, name: str, threads: dict[int, str], labels: str = "NPU 1") -> list[Event]:
    """The metadata rows of one process."""
    process = {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    label = {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": labels}}
    rows = [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": text}}
        for tid, text in threads.items()
    ]
    return [process, label, *rows]


def framework() -> list[Event]:
    """Python rows: operators, and both ends of the task queue."""
    op = {"cat": "cpu_op"}
    dims = {"Input Dims": "64,32;\r\n32,16;\r\n", "Input type": "c10::BFloat16;\r\nc10::BFloat16;\r\nScalar"}
    queue = [
        ("enqueue", "Enqueue", 100, (40, 45), 7),
        ("dequeue", "Dequeue@aclnnMatmul", 101, (60, 80), 7),
        ("enqueue", "Enqueue@hcom_allReduce_", 100, (110, 115), 8),
        ("dequeue", "Dequeue@hcom_allReduce_", 101, (120, 165), 8),
    ]
    return [
        *named(HOST, "Python", {100: "Thread 100", 101: "Thread 101"}, "CPU"),
        row(HOST, 100, "ProfilerStep#3", (0, 1000), **op, args={"Sequence number": -1}),
        row(HOST, 100, "aten::mm", (10, 60), **op, args={"Sequence number": 5, **dims}),
        row(HOST, 100, "c10d::allreduce_", (100, 130), **op, args={"Sequence number": -1}),
        *(row(HOST, t, name, span, cat=cat, args={"correlation_id": n}) for cat, name, t, span, n in queue),
    ]


def cann() -> list[Event]:
    """CANN rows of level 1: thread 101 launches, thread 100 waits for the stream at the end."""
    calls = [
        (101, "AscendCL@aclnnMatmul", (62, 78), 1, "0"),
        (101, "Node@launch", (65, 70), 2, "aclnnMatmul_MatMulCommon_MatMulV3"),
        (101, "AscendCL@aclrtRecordEvent", (122, 124), 3, "0"),
        (101, "AscendCL@aclrtStreamWaitEvent", (125, 127), 4, "0"),
        (101, "Node@launch", (130, 150), 5, "hcom_allReduce_"),
        (101, "AscendCL@aclrtRecordEvent", (152, 153), 6, "0"),
        (101, "AscendCL@aclrtStreamWaitEvent", (154, 155), 8, "0"),
        (101, "Node@launch", (156, 158), 10, "aclnnAdd_Add_Add"),
        (100, "AscendCL@aclrtSynchronizeStreamWithTimeout", (200, 905), 11, "0"),
    ]
    rows = [
        row(CANN, tid, name, span, args={"connection_id": connection, "item_id": item})
        for tid, name, span, connection, item in calls
    ]
    return [*named(CANN, "CANN", {100: "Thread 100", 101: "Thread 101"}, "CPU"), *rows]


def hardware(*, connections: bool = True) -> list[Event]:
    """Tasks of the device's streams."""
    tasks = [
        (2, "aclnnMatmul_MatMulCommon_MatMulV3", (100, 300), "AI_CORE", 2),
        (2, "EVENT_RECORD", (300, 300.02), "EVENT_RECORD_SQE", 3),
        (2, "EVENT_WAIT", (310, 700.4), "EVENT_WAIT_SQE", 8),
        (2, "aclnnAdd_Add_Add", (702, 802), "AI_VECTOR_CORE", 10),
        (9, "EVENT_WAIT", (140, 300.3), "EVENT_WAIT_SQE", 4),
        (9, "Notify Wait", (306, 406), "Notify Wait", 5),
        (9, "SDMA", (410, 610), "SDMA", 5),
        (9, "EVENT_RECORD", (700, 700.02), "EVENT_RECORD_SQE", 6),
        (0, "PROFILING_ENABLE", (1, 1.02), "PLACE_HOLDER_SQE", 99),
    ]
    rows = [
        row(HARDWARE, stream, name, span, args={"Task Type": kind} | ({"connection_id": c} if connections else {}))
        for stream, name, span, kind, c in tasks
    ]
    return [*named(HARDWARE, "Ascend Hardware", {2: "Stream 2", 9: "Stream 9", 0: "Stream 0"}), *rows]


def collective(counter: int = 0, *, planes: bool = True, count: int = 1000, process: str = "HCCL") -> list[Event]:
    """One all-reduce over [302, 698]; its master plane waits 100 and moves data for 200 + 80."""
    args = {"connection_id": 5, "data_type": "FP32", "alg_type": "MESH-RING", "count": count}
    big = row(HCCL, 0, f"hcom_allReduce__123_{counter}_1", (302, 698), args=args)
    threads = {0: "Group 0 Communication"} | ({1: "Plane 0", 2: "Plane 1"} if planes else {})
    tasks = [
        (1, "Memcpy", (303, 305), 1, 1),
        (2, "Notify_Wait", (306, 406), 1, 0),
        (2, "Reduce_Inline", (410, 610), 1, 0),
        (2, "Memcpy", (612, 692), 1, 3),
    ]
    rows = [
        row(HCCL, tid, name, span, args={"src rank": a, "dst rank": b, "size(Byte)": 64, "stream id": 9})
        for tid, name, span, a, b in tasks
    ]
    return [*named(HCCL, process, threads), big, *(rows if planes else [])]


def overlap() -> list[Event]:
    """Derived rows."""
    spans = {"Computing": (100, 300), "Communication": (302, 698), "Free": (300, 302)}
    rows = [row(OVERLAP, tid, name, span) for tid, (name, span) in enumerate(spans.items())]
    return [*named(OVERLAP, "Overlap Analysis", dict(enumerate(spans))), *rows]


def arrow(category: str, name: str, tail: tuple[int, int, float], head: tuple[int, int, float]) -> list[Event]:
    """Both ends of a flow; ends are (process, thread, us)."""
    ends = [("s", tail), ("f", head)]
    return [
        {"ph": ph, "bp": "e", "name": name, "cat": category, "id": ts(head[2]), "pid": p, "tid": t, "ts": ts(us)}
        for ph, (p, t, us) in ends
    ]


def npu_arrows() -> list[Event]:
    """From operators to what they launched, drawn at every level."""
    heads = [((HOST, 100, 10), (HARDWARE, 2, 100)), ((HOST, 100, 100), (HCCL, 0, 302))]
    heads.append(((HOST, 100, 100), (HARDWARE, 2, 702)))
    return [end for tail, head in heads for end in arrow("async_npu", "torch_to_npu", tail, head)]


def level0() -> list[Event]:
    """No CANN rows and no planes; tasks carry no connections."""
    return [*framework(), *hardware(connections=False), *collective(planes=False), *overlap(), *npu_arrows()]


def level1(counter: int = 0) -> list[Event]:
    """CANN rows, connections and planes."""
    return [*framework(), *cann(), *hardware(), *collective(counter), *overlap(), *npu_arrows()]


def level2() -> list[Event]:
    """Level 1 with the runtime's own calls below CANN's."""
    runtime = [(66, 69, 2, "Runtime@KernelLaunchWithHandle"), (131, 149, 5, "Runtime@FftsPlusTaskLaunch")]
    rows = [row(CANN, 101, name, (a, b), args={"connection_id": c, "item_id": "0"}) for a, b, c, name in runtime]
    return [*level1(), *rows]


KERNELS = (
    "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Input Shapes,Input Data Types,"
    "Input Formats,Output Shapes,Output Data Types,Output Formats,cube_utilization(%)\r\n"
    '3,aclnnMatmul_MatMulCommon_MatMulV3,MatMulV3,AI_CORE,{a}\t,200.0,0.0,"""64,32;32,16""",DT_BF16;DT_BF16,ND;ND,'
    '"""64,16""",DT_BF16,ND,71.5\r\n'
    '3,aclnnAdd_Add_Add,Add,AI_VECTOR_CORE,{b}\t,100.0,402.0,"""64,16;""",DT_BF16;DT_BF16,ND;ND,"""64,16""",DT_BF16,ND,0\r\n'
    "3,hcom_allReduce__123_0_1,hcom_allReduce_,HCCL,{c}\t,396.0,2.0,N/A,N/A,N/A,N/A,N/A,N/A,N/A\r\n"
)


def communication(counter: int = 0, transit_ms: float = 0.28) -> dict[str, Any]:
    """``communication.json`` of the collective, with its pseudo entry."""
    times = {"Start Timestamp(us)": float(T0 + 302), "Elapse Time(ms)": 0.396, "Transit Time(ms)": transit_ms}
    entry = {"Communication Time Info": times, "Communication Bandwidth Info": {}}
    total = {"Communication Time Info": {"Elapse Time(ms)": 0.396, "Transit Time(ms)": transit_ms}}
    key = f"hcom_allReduce__123_{counter}_1@{GROUP}"
    return {"step3": {"p2p": {}, "collective": {key: entry, "Total Op Info": total}}}


def write(folder: Path, rank: int, events: list[Event], *, tables: bool = True, counter: int = 0) -> Path:
    """A ``*_ascend_pt`` folder of one rank below ``folder``."""
    top = folder / f"node_{rank}_20240605_ascend_pt"
    output = top / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (output / "trace_view.json").write_text(json.dumps(events), encoding="utf-8")
    info = {"config": {"experimental_config": {"_profiler_level": "Level1"}}, "rank_id": rank}
    (top / f"profiler_info_{rank}.json").write_text(json.dumps(info), encoding="utf-8")
    if tables:
        kernels = KERNELS.format(a=ts(100), b=ts(702), c=ts(302))
        (output / "kernel_details.csv").write_text(kernels, encoding="utf-8", newline="")
        (output / "communication.json").write_text(json.dumps(communication(counter)), encoding="utf-8")
    return top
