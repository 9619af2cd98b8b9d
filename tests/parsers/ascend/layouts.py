"""Folders as msprof, MindSpore and msprof-analyze lay them out, hand-made; what a rank holds is in :mod:`folders`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import parsers
from replay.trace import Trace
from tests.parsers.ascend import folders as make

MATMUL = {"Name": "MatMul_1", "Type": "MatMulV3", "Start Time(us)": make.ts(100), "Duration(us)": "200.0"}
STEP = "Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"
Json = Mapping[str, Any]


def put(path: Path, content: str | bytes | Json | Sequence[Any]) -> Path:
    """A file below folders that may not exist yet; what is no text becomes JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def table(*rows: Mapping[str, str], columns: Sequence[str] = (), newline: str = "\n") -> str:
    """A CSV of the columns that any row has; cells are quoted as CANN quotes them, by hand."""
    header = list(columns) or list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(header), *(",".join(row.get(name, "") for name in header) for row in rows)]
    return newline.join(lines) + newline


def kernels() -> str:
    """The kernel table of :mod:`folders`'s step."""
    return make.KERNELS.format(a=make.ts(100), b=make.ts(702), c=make.ts(302))


def op_summary(device: int = 1) -> str:
    """The same as msprof names it."""
    names = {"Step Id": "Device_id", "Name": "Op Name", "Type": "OP Type", "Accelerator Core": "Task Type"}
    names |= {f"{word}(us)": f"Task {word}(us)" for word in ("Start Time", "Duration", "Wait Time")}
    header, *rest = kernels().split("\r\n")
    renamed = ",".join(names.get(name, name) for name in header.split(","))
    return "\r\n".join([renamed, *(row.replace("3,", f"{device},", 1) for row in rest)])


def msprof_events(device: int = 1) -> list[make.Event]:
    """Rows of a timeline without a framework, of one device; the host's wait is the last of the recording."""
    rows = [*make.cann(), *make.hardware(), *make.collective(), *make.overlap()]
    for event in rows:
        if event["name"] == "AscendCL@aclnnMatmul" or event.get("args", {}).get("connection_id") == 2:
            event["ts"] = make.ts(100 if event["pid"] == make.HARDWARE else 86 if "Ascend" in event["name"] else 89)
        if "Synchronize" in event["name"]:
            event["dur"] = 606.0
    return json.loads(json.dumps(rows).replace("NPU 1", f"NPU {device}"))  # type: ignore[no-any-return]


def prof(folder: Path, number: int, stamp: str = "20240605101010") -> Path:
    """The name of one recording of msprof below ``folder``."""
    return folder / f"PROF_{number:06}_{stamp}123_ABCDEFGH"


def flat_communication(start: str) -> Json:
    """``analyze/communication.json``: operators without steps and kinds."""
    (kinds,) = make.communication().values()
    entries = dict(kinds["collective"])
    total = entries.pop("Total Op Info")
    (times,) = (entry["Communication Time Info"] for entry in entries.values())
    times["Start Timestamp(us)"] = start
    return entries | {"Total HCCL Operators": total}


def of_ranks(ranks: Sequence[int], group: str = make.GROUP, operator: str = "hcom_allReduce__123_0_1") -> Json:
    """A ``cluster_communication.json`` of one operator; rank r starts r us late and ends with the others."""
    members = {
        str(rank): {
            "Communication Time Info": {
                "Start Timestamp(us)": make.ts(302 + rank), "Elapse Time(ms)": 0.396 - rank / 1000,
                "Transit Time(ms)": 0.28, "Wait Time(ms)": 0.1, "Synchronization Time(ms)": 0.1,
            },
            "Communication Bandwidth Info": {
                "HCCS": {"Transit Size(MB)": 1.0, "Transit Time(ms)": 0.1, "Bandwidth(GB/s)": 10.0},
            },
        }
        for rank in ranks
    }  # fmt: skip
    key = f"({', '.join(map(str, ranks))})"
    total = {rank: {"Communication Time Info": {"Elapse Time(ms)": 0.396}} for rank in members}
    return {"p2p": {}, key: {"step3": {f"{operator}@{group}": members, "Total Op Info": total}}}


def cluster_steps(ranks: Sequence[int], stages: Sequence[Sequence[int]] = (), *, indexes: bool = False) -> str:
    """A ``cluster_step_trace_time.csv``: every rank computes for 1 ms and its number in us, a stage for the longest."""
    header = f"Step,Type,Index,{STEP}" + (",DP Index,PP Index,TP Index" if indexes else "")
    rows = []
    for rank in ranks:
        parts = f"{1000.0 + rank},200.0,50.0,250.0,30.0,1280.0,0"
        index = f",{rank // 2 % 2},{rank // 4},{rank % 2}" if indexes else ""
        rows.append(f"3,rank,{rank},{parts}{index}")
    for stage in stages:
        parts = f"{1000.0 + max(stage)},200.0,50.0,250.0,30.0,1280.0,0"
        cells = ", ".join(map(str, stage))
        rows.append(f'3,stage,"({cells})",{parts}{",NA,NA,NA" if indexes else ""}')
    return "\r\n".join([header, *rows]) + "\r\n"


def cluster(folder: Path, files: Mapping[str, str | Json]) -> Path:
    """A ``cluster_analysis_output`` below ``folder``."""
    for name, content in files.items():
        put(folder / "cluster_analysis_output" / name, content)
    return folder


def old_mindspore(folder: Path, rank: int) -> Path:
    """What MindSpore before 2.4 left of one rank in the ``profiler`` folder of its node."""
    top = folder / "profiler"
    timeline = "op_name,stream_id,start_time(us),duration(ms)\r\n"
    timeline += f"Default/network/MatMul-op1,2,{make.ts(100 + rank)},0.2\r\n"
    timeline += f"Default/network/Add-op2,2,{make.ts(702)},0.1\r\n"
    put(top / f"output_timeline_data_{rank}.txt", timeline)
    steps = "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail\n"
    steps += "1,1000,101000,100000,2000,90000,1000,88000,11000\n-,1000,101000,100000,2000,90000,1000,88000,11000\n"
    put(top / f"step_trace_raw_{rank}_detail_time.csv", steps)
    put(top / f"aicore_intermediate_{rank}_detail.csv", "full_op_name,task_duration,execution_frequency,task_type\n")
    costs = json.dumps({"0-1": {"SDMA": [0.1, 1.0, 10.0]}}).replace('"', '""')
    put(top / f"hccl_raw_{rank}.csv", "step_num,communication_cost,wait_cost,link_info,communication_operator_cost\n"
        f'1,380,100,"{costs}","{{}}"\n')  # fmt: skip
    info = {"context_mode": "graph", "rank_id": rank, "ms_version": "2.2.0", "rank_size": 2, "stage_num": 1}
    put(top / f"profiler_info_{rank}.json", info)
    return top


def read(*folders: Path) -> Trace:
    """The trace of some folders."""
    trace = parsers.read(list(folders))
    assert isinstance(trace, Trace)
    return trace


def device_ops(trace: Trace) -> list[tuple[int, str, int, int]]:
    """(rank, name, start, duration) of the device events, ns."""
    rows = np.flatnonzero(trace.is_device).tolist()
    return [(int(trace.rank[i]), trace.name_of(i), int(trace.start_ns[i]), int(trace.dur_ns[i])) for i in rows]
