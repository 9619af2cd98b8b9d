"""Hand-made sqlite exports, with the tables and columns of torch_npu's and msprof's, from the rows of a timeline."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import parsers
from replay.trace import Trace
from tests.parsers.ascend import folders

Event = dict[str, Any]
Row = Sequence[object]
NONE = 2**32 - 1

SCHEMA = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "SESSION_TIME_INFO": "startTimeNs INTEGER, endTimeNs INTEGER",
    "NPU_INFO": "id INTEGER, name TEXT",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "META_DATA": "name TEXT, value TEXT",
    "TASK": "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, "
    "globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER",
    "COMPUTE_TASK_INFO": "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockNum INTEGER, mixBlockNum INTEGER, "
    "taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, "
    "outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER, opState INTEGER, "
    "hf32Eligible INTEGER",
    "COMMUNICATION_SCHEDULE_TASK_INFO": "name INTEGER, globalTaskId INTEGER PRIMARY KEY, taskType INTEGER, "
    "opType INTEGER",
    "COMMUNICATION_TASK_INFO": "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, "
    "groupName INTEGER, notifyId INTEGER, rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, "
    "size INTEGER, dataType INTEGER, linkType INTEGER, opId INTEGER, isMaster INTEGER, bandwidth NUMERIC",
    "COMMUNICATION_OP": "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, "
    "opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, "
    "opType INTEGER, deviceId INTEGER, rankSize INTEGER",
    "CANN_API": "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER",
    "PYTORCH_API": "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, "
    "sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, "
    "type INTEGER",
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "MEMCPY_INFO": "globalTaskId NUMERIC, size NUMERIC, memcpyOperation NUMERIC",
    "TASK_PMU_INFO": "globalTaskId INTEGER, name INTEGER, value NUMERIC",
    "OVERLAP_ANALYSIS": "id INTEGER PRIMARY KEY, deviceId INTEGER, startNs NUMERIC, endNs NUMERIC, type INTEGER",
    "MSTX_EVENTS": "startNs INTEGER, endNs INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, "
    "message INTEGER, globalTid INTEGER, endGlobalTid INTEGER, domainId INTEGER, connectionId INTEGER",
    "ENUM_MSTX_EVENT_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "MEMORY_RECORD": "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, "
    "totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER",
    "GC_RECORD": "startNs INTEGER, endNs INTEGER, globalTid INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "ENUM_API_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_DATA_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_LINK_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_TRANSPORT_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_RDMA_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_MEMCPY_OPERATION": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_OVERLAP_ANALYSIS_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
}
STATISTICS = {
    "CommAnalyzerTime": "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, "
    "transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT",
    "CommAnalyzerBandwidth": "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, "
    "transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC, "
    "total_duration NUMERIC, step TEXT, type TEXT",
    "CommAnalyzerMatrix": "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, "
    "transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT",
    "StepTraceTime": "deviceId INTEGER, step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, "
    "overlapped NUMERIC, communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
    "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC",
}
API_TYPES = {
    "AscendCL": 20000, "Model": 15000, "Node": 10000, "Communication": 5500, "Hccl": 5500, "Runtime": 5000,
}  # fmt: skip
ENUMS = {
    "ENUM_API_TYPE": {20000: "acl", 15000: "model", 10000: "node", 5500: "communication", 5000: "runtime",
                      50001: "op", 50002: "queue", 50003: "trace", 50004: "mstx"},
    "ENUM_HCCL_DATA_TYPE": {0: "INT8", 2: "INT32", 3: "FP16", 4: "FP32", 11: "BFP16", 65534: "N/A"},
    "ENUM_MEMCPY_OPERATION": {0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device"},
    "ENUM_MSTX_EVENT_TYPE": {0: "marker", 1: "push/pop", 2: "start/end", 3: "marker_ex"},
    "ENUM_OVERLAP_ANALYSIS_TYPE": {0: "COMPUTE", 1: "COMMUNICATION", 2: "COMM_NOT_OVERLAP_COMP", 3: "FREE"},
}  # fmt: skip
_TYPE_OF_CATEGORY = {"cpu_op": 50001, "enqueue": 50002, "dequeue": 50002, "python_function": 50003}
_OVERLAPS = {"Computing": 0, "Communication": 1, "Communication(Not Overlapped)": 2, "Free": 3}
_CELLS = {
    "Input Shapes": "inputShapes", "Input Data Types": "inputDataTypes", "Input Formats": "inputFormats",
    "Output Shapes": "outputShapes", "Output Data Types": "outputDataTypes", "Output Formats": "outputFormats",
    "OP State": "opState", "HF32 Eligible": "hf32Eligible",
}  # fmt: skip


def span(event: Event) -> tuple[int, int]:
    """Start and end of a timeline's row in ns, rounded as msprof rounds."""
    start, dur = (int((Decimal(str(event[key])) * 1000).quantize(1, ROUND_HALF_UP)) for key in ("ts", "dur"))
    return start, start + dur


@dataclass
class Export:
    """Tables of one export while they are filled."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in SCHEMA})
    strings: dict[str, int] = field(default_factory=dict)

    def text(self, value: object) -> int:
        """Number of a string."""
        return self.strings.setdefault(str(value), len(self.strings))

    def add(self, table: str, **values: object) -> None:
        """One row."""
        self.rows[table].append(values)

    def write(self, path: Path, schema: dict[str, str] | None = None, journal: str = "wal") -> Path:
        """The database, in WAL mode without files beside it as the profilers leave it; strings are written last."""
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = {name: [(row.keys(), tuple(row.values())) for row in own] for name, own in self.rows.items()}
        strings = [(("id", "value"), (number, value)) for value, number in self.strings.items()]
        enums = {name: [(("id", "name"), pair) for pair in own.items()] for name, own in ENUMS.items()}
        fill(path, schema or SCHEMA, rows | enums | {"STRING_IDS": strings}, journal)
        return path


def fill(
    path: Path, schema: dict[str, str], rows: Mapping[str, Sequence[tuple[Iterable[str], Row]]], journal: str = "wal"
) -> None:
    """A database with these tables and rows, each with the names of its columns."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA journal_mode = {journal}; PRAGMA synchronous = off")
        for name, columns in schema.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
            for names, values in rows.get(name, []):
                marks = ", ".join("?" * len(values))
                connection.execute(f"INSERT INTO {name} ({', '.join(names)}) VALUES ({marks})", values)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def exported(
    events: Sequence[Event], kernels: Sequence[dict[str, str]] = (), *, rank: int = 0, group: str = ""
) -> Export:
    """What an export of these rows of a timeline holds; ``rank`` is that of the first device."""
    out = Export()
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    by_process: dict[str, list[Event]] = {}
    for event in (e for e in events if e["ph"] == "X"):
        by_process.setdefault(names.get(event["pid"], ""), []).append(dict(event))
    device_rows = by_process.get("Ascend Hardware", [])
    comms = by_process.get("HCCL", []) + by_process.get("Communication", [])
    ops = [e for e in comms if "Group" in threads[e["pid"], e["tid"]]]
    pid = next((e["pid"] for e in by_process.get("Python", [])), 77)
    labels = {
        e["pid"]: e["args"]["labels"].removeprefix("NPU").strip() for e in events if e["name"] == "process_labels"
    }
    devices = {pid: int(label) if label.isdigit() else pid & 31 for pid, label in labels.items()}
    _connections(device_rows, ops)
    _host(out, events, by_process, pid, {place(e): e["args"]["connection_id"] for e in device_rows + ops})
    _tasks(out, device_rows, kernels, pid, devices)
    _collectives(out, ops, comms, threads, (pid, devices, group))
    for event in by_process.get("Overlap Analysis", []):
        start, end = span(event)
        number = len(out.rows["OVERLAP_ANALYSIS"])
        values = {"deviceId": devices[event["pid"]], "type": _OVERLAPS[event["name"]]}
        out.add("OVERLAP_ANALYSIS", id=number, startNs=start, endNs=end, **values)
    for number, device in enumerate(sorted({devices[e["pid"]] for e in device_rows + comms})):
        out.add("RANK_DEVICE_MAP", rankId=rank if rank < 0 else rank + number, deviceId=device)
        out.add("NPU_INFO", id=device, name="Ascend910B")
    return out


def place(event: Event) -> tuple[object, object, str]:
    """As arrows name it."""
    return event["pid"], event["tid"], str(event["ts"])


def _connections(tasks: Sequence[Event], ops: Sequence[Event]) -> None:
    """Numbers for what a timeline of level 0 leaves without; carriers of a collective share its number."""
    free = 1 + max([0, *(e.get("args", {}).get("connection_id", 0) for e in (*tasks, *ops))])
    for number, event in enumerate((*ops, *tasks), free):
        event["args"] = {"connection_id": number, **event.get("args", {})}


def _host(
    out: Export, events: Sequence[Event], rows: dict[str, list[Event]], pid: int, connection_at: dict[Any, int]
) -> None:
    highest = max([0, *(e["args"]["connection_id"] for e in rows.get("CANN", []))])
    ends: dict[object, dict[str, Event]] = {}
    for event in (e for e in events if e.get("cat") == "async_npu"):
        ends.setdefault(event["id"], {})[event["ph"]] = event
    launched: dict[Any, list[int]] = {}
    for pair in ends.values():
        launched.setdefault(place(pair["s"]), []).append(connection_at[place(pair["f"])])
    for event in rows.get("CANN", []):
        start, end = span(event)
        level, _, name = event["name"].partition("@")
        thread, number = pid << 32 | event["tid"], event["args"]["connection_id"]
        values = {"globalTid": thread, "connectionId": number, "name": out.text(name), "type": API_TYPES[level]}
        out.add("CANN_API", startNs=start, endNs=end, **values)
    for event in rows.get("Python", []):
        start, end = span(event)
        args = event.get("args", {})
        numbers = launched.get(place(event), []) if event["cat"] == "cpu_op" else []
        numbers = [args["correlation_id"] + highest + 1] if "correlation_id" in args else numbers
        key = len(out.rows["PYTORCH_API"]) if numbers else None
        for number in numbers:
            out.add("CONNECTION_IDS", id=key, connectionId=number)
        dims, types = args.get("Input Dims"), args.get("Input type")
        out.add(
            "PYTORCH_API",
            startNs=str(start),
            endNs=str(end),
            globalTid=pid << 32 | event["tid"],
            connectionId=key,
            name=out.text(event["name"]),
            sequenceNumber=args.get("Sequence number"),
            inputDtypes=None if dims is None else out.text(dims),  # torch_npu puts shapes here …
            inputShapes=None if types is None else out.text(types),  # … and types here
            type=_TYPE_OF_CATEGORY[event["cat"]],
        )


def _tasks(
    out: Export, tasks: Sequence[Event], kernels: Sequence[dict[str, str]], pid: int, devices: dict[int, int]
) -> None:
    details = {span({"ts": row["Start Time(us)"].strip(), "dur": 0})[0]: row for row in kernels}
    for number, event in enumerate(tasks):
        args, (start, end) = event["args"], span(event)
        name = event["name"]
        task = {"startNs": start, "endNs": end, "deviceId": devices[event["pid"]]}
        task |= {"connectionId": args["connection_id"]}
        task |= {
            "globalTaskId": number,
            "globalPid": pid,
            "streamId": event["tid"],
            "taskId": args.get("Task Id", number),
        }
        described = details.get(start)
        compute = (
            "CORE" in args["Task Type"] or "MIX" in args["Task Type"] or args["Task Type"] in ("AI_CPU", "DSA_SQE")
        )
        kind = "KERNEL_AICORE" if compute else name
        out.add("TASK", **task, taskType=out.text(kind), contextId=NONE, modelId=args.get("Model Id", NONE))
        if compute:
            _compute(out, number, event, described or {})
        if name == "MEMCPY_ASYNC":
            operation = 1 if "PCIE" in args["Task Type"] else 3
            out.add("MEMCPY_INFO", globalTaskId=number, size=args.get("size(B)"), memcpyOperation=operation)


def _compute(out: Export, number: int, event: Event, row: dict[str, str]) -> None:
    cells = {column: out.text(row.get(cell, "N/A").replace('"', "")) for cell, column in _CELLS.items()}
    blocks = row.get("Block Num") or row.get("Block Dim")
    out.add(
        "COMPUTE_TASK_INFO",
        name=out.text(event["name"]),
        globalTaskId=number,
        blockNum=int(blocks) if blocks else None,
        taskType=out.text(event["args"]["Task Type"]),
        opType=out.text(row.get("Type", "N/A")),
        **cells,
    )
    for column, value in row.items():
        counted = column.startswith(("aic", "cube", "mac"))
        if counted and value.strip() not in ("", "N/A"):
            name = column.removesuffix("(us)").removesuffix("(%)")
            out.add("TASK_PMU_INFO", globalTaskId=number, name=out.text(name), value=float(value))


def _collectives(
    out: Export,
    ops: Sequence[Event],
    rows: Sequence[Event],
    threads: dict[Any, str],
    of: tuple[int, dict[int, int], str],
) -> None:
    pid, devices, group = of
    planes = [e for e in rows if "Plane" in threads[e["pid"], e["tid"]]]
    types = {name: number for number, name in ENUMS["ENUM_HCCL_DATA_TYPE"].items()}
    for number, event in enumerate(ops):
        args, (start, end) = event["args"], span(event)
        name = group or threads[event["pid"], event["tid"]].split()[1]
        values = {"opName": out.text(event["name"]), "connectionId": args["connection_id"], "groupName": out.text(name)}
        values |= {"dataType": types[args["data_type"]], "algType": out.text(args["alg_type"]), "count": args["count"]}
        device = devices[event["pid"]]
        values |= {"opType": out.text(event["name"].partition("__")[0] + "_"), "deviceId": device, "opId": number}
        out.add("COMMUNICATION_OP", startNs=start, endNs=end, **values)
        for task in (e for e in planes if e["pid"] == event["pid"] and start <= span(e)[0] < end):
            _sub_task(out, task, (args["connection_id"], number, name), threads, (pid, device))


def _sub_task(
    out: Export, event: Event, of: tuple[int, int, str], threads: dict[Any, str], owner: tuple[int, int]
) -> None:
    connection, op, group = of
    args, (start, end) = event["args"], span(event)
    key = len(out.rows["TASK"])
    task = {"startNs": start, "endNs": end, "deviceId": owner[1], "connectionId": connection, "globalTaskId": key}
    task |= {
        "globalPid": owner[0],
        "streamId": args["stream id"],
        "taskId": NONE - key,
        "contextId": args.get("context id", 0),
    }
    out.add("TASK", **task, taskType=out.text("SDMA"), modelId=NONE)
    ranks = {"srcRank": args["src rank"], "dstRank": args["dst rank"], "size": args["size(Byte)"]}
    plane = int(threads[event["pid"], event["tid"]].split()[1])
    names = {"name": out.text("hcom"), "taskType": out.text(event["name"]), "groupName": out.text(group)}
    out.add("COMMUNICATION_TASK_INFO", globalTaskId=key, planeId=plane, opId=op, **names, **ranks)


def statistics(path: Path, communication: dict[str, Any], steps: str = "") -> Path:
    """``analysis.db`` that holds what a ``communication.json`` and a ``step_trace_time.csv`` hold."""
    times, links = [], []
    for step, kinds in communication.items():
        for kind, operators in kinds.items():
            for key, entry in operators.items():
                name, _, group = key.partition("@")
                info = entry["Communication Time Info"]
                start, spans = info.get("Start Timestamp(us)", 0), [info.get(f"{w} Time(ms)") for w in _TIME_WORDS]
                times.append((_columns("CommAnalyzerTime"), (name, group, start, *spans, step, kind)))
                for transport, use in entry.get("Communication Bandwidth Info", {}).items():
                    total = (use["Transit Size(MB)"], use["Transit Time(ms)"], use.get("Bandwidth(GB/s)"), 0)
                    for size, (count, duration) in (use["Size Distribution"] or {0: (0, 0)}).items():
                        row = (name, group, transport, *total, float(size), count, duration, step, kind)
                        links.append((_columns("CommAnalyzerBandwidth"), row))
    rows = [_step(row) for row in csv.DictReader(steps.splitlines())]
    named = [(_columns("StepTraceTime"), row) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    fill(path, STATISTICS, {"CommAnalyzerTime": times, "CommAnalyzerBandwidth": links, "StepTraceTime": named})
    return path


_TIME_WORDS = ("Elapse", "Transit", "Wait", "Synchronization", "Idle")
_STEP_COLUMNS = (
    "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage", "Bubble",
    "Communication(Not Overlapped and Exclude Receive)", "Preparing",
)  # fmt: skip


def _columns(table: str) -> list[str]:
    return [column.split()[0] for column in STATISTICS[table].split(", ")]


def _step(row: dict[str, str]) -> Row:
    return (0, row["Step"], *(float(row[name]) if row.get(name) else None for name in _STEP_COLUMNS))


def of_folder(folder: Path, rank: int, out: Path) -> Path:
    """Exports of the run of a text folder, below ``out``: the profile, and its statistics."""
    text = folder / "ASCEND_PROFILER_OUTPUT"
    events = json.loads((text / "trace_view.json").read_text("utf-8"))
    with (text / "kernel_details.csv").open(encoding="utf-8", newline="") as file:
        kernels = [row for row in csv.DictReader(file) if row["Accelerator Core"] != "HCCL"]
    communication = json.loads((text / "communication.json").read_text("utf-8"))
    group = next(key.partition("@")[2] for kinds in communication.values() for key in kinds["collective"])
    target = out / folder.name / "ASCEND_PROFILER_OUTPUT"
    exported(events, kernels, rank=rank, group=group).write(target / f"ascend_pytorch_profiler_{rank}.db")
    steps = text / "step_trace_time.csv"
    statistics(target / "analysis.db", communication, steps.read_text("utf-8") if steps.exists() else "")
    return out / folder.name


CLUSTER = {
    "ClusterStepTraceTime": 'step TEXT, type TEXT, "index" TEXT, computing NUMERIC, '
    "communication_not_overlapped NUMERIC, "
    "overlapped NUMERIC, communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
    "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC, dp_index INTEGER, pp_index INTEGER, "
    "tp_index INTEGER",
    "ClusterCommunicationTime": "step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT, "
    "start_timestamp NUMERIC, elapsed_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC, "
    "synchronization_time NUMERIC, idle_time NUMERIC, synchronization_time_ratio NUMERIC, wait_time_ratio NUMERIC",
    "ClusterCommunicationMatrix": "step TEXT, hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, "
    "transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, transport_type TEXT, op_name TEXT",
    "CommunicationGroupMapping": "type TEXT, rank_set TEXT, group_name TEXT, group_id TEXT, pg_name TEXT",
    "ClusterBaseInfo": "key TEXT, value TEXT",
    "HostInfo": "hostUid TEXT, hostName TEXT",
}


def cluster(
    path: Path, steps: str, communication: Mapping[str, Any], groups: Sequence[Row] = (), base: Sequence[Row] = ()
) -> Path:
    """``cluster_analysis.db`` that holds what these files of a cluster hold."""
    columns = {table: [c.split()[0] for c in text.split(", ")] for table, text in CLUSTER.items()}
    rows: dict[str, list[tuple[Iterable[str], Row]]] = {name: [] for name in CLUSTER}
    for row in csv.DictReader(steps.splitlines()):
        cells = [row.get(name) or None for name in (*_STEP_COLUMNS, "DP Index", "PP Index", "TP Index")]
        values = (row["Step"], row["Type"], row["Index"], *cells)
        rows["ClusterStepTraceTime"].append((columns["ClusterStepTraceTime"], values))
    for operators in (ops for by_step in communication.values() for ops in by_step.items()):
        for key, ranks in operators[1].items():
            name, _, group = key.partition("@")
            for rank, entry in ranks.items():
                info = entry["Communication Time Info"]
                times = [info.get(f"{word} Time(ms)") for word in _TIME_WORDS]
                values = (operators[0], int(rank), name, group, info.get("Start Timestamp(us)"), *times, 0, 0)
                rows["ClusterCommunicationTime"].append((columns["ClusterCommunicationTime"], values))
    rows["CommunicationGroupMapping"] = [(columns["CommunicationGroupMapping"], row) for row in groups]
    rows["ClusterBaseInfo"] = [(columns["ClusterBaseInfo"], row) for row in base]
    path.parent.mkdir(parents=True, exist_ok=True)
    fill(path, CLUSTER, rows)
    return path


def damage(path: Path, table: str) -> Path:
    """A database in which the first page of a table is overwritten."""
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)
    return path


def read(*paths: Path) -> Trace:
    """One trace of all."""
    found = parsers.read(paths)
    assert isinstance(found, Trace)
    return found


def export(folder: Path, events: Sequence[Event], rank: int = 0) -> Path:
    """An export of these rows, named as torch_npu names it."""
    path = folder / "ASCEND_PROFILER_OUTPUT" / f"ascend_pytorch_profiler_{rank}.db"
    return exported(events, rank=rank, group=folders.GROUP).write(path)


def change(path: Path, *statements: str) -> Path:
    """An export with its rows changed."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA journal_mode = delete; PRAGMA synchronous = off")
        connection.executescript(";".join(statements))
    return path
