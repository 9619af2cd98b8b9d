"""From torch.profiler's CPU trace to the Kineto trace of a GPU run: rows are relabelled, their times stay as measured.

A range ``@layer=3`` becomes the annotation ``layer=3``. A range ``~kernel 17`` on a stream's thread becomes a
``kernel`` row on the device, ``~launch 17`` its runtime call; event records, event waits and synchronisations become
the runtime and ``cuda_sync`` rows that Kineto writes for them. Rows of other kinds (Gloo's own work on the stream
threads) are left out. ``baseTimeNanoseconds`` moves to the second the step starts in, so that ``ts`` is short; base
plus ts is unchanged.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traces.record import groups
from traces.record.calls import Call

Row = dict[str, Any]
_NS_PER_S = 1_000_000_000
_RANGE = re.compile(
    r'"ph": "X",\s*"cat": "(?:cpu_op|user_annotation)",\s*"name": "([^"]*)",\s*"pid": (\d+),\s*"tid": (\d+),'
    r'\s*"ts": (\d+(?:\.\d+)?),\s*"dur": (\d+(?:\.\d+)?)'
)
_KEPT_KEYS = ("schemaVersion", "distributedInfo", "displayTimeUnit", "trace_id")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A range as torch.profiler measured it, times in nanoseconds since the epoch."""

    name: str
    pid: int
    tid: int
    start_ns: int
    dur_ns: int


def export(source: Path, target: Path, calls: Mapping[int, Call], step: int, device: int) -> None:
    """Write ``ProfilerStep#<step>`` of the profiler's file ``source`` as a gzipped Kineto trace of ``device``."""
    header, text = _split(source.read_text())
    ranges = list(_ranges(text, int(header["baseTimeNanoseconds"])))
    start_ns, end_ns = _window(ranges, step)
    base_ns = start_ns // _NS_PER_S * _NS_PER_S
    rows: list[Row] = []
    for recorded in ranges:
        if start_ns <= recorded.start_ns and recorded.start_ns + recorded.dur_ns <= end_ns:
            rows += _relabel(recorded, calls, device, base_ns)
    rows.sort(key=lambda row: (row["ts"], -row["dur"]))
    kept = {key: header[key] for key in _KEPT_KEYS if key in header}
    kept["distributedInfo"] = json.loads(json.dumps(header["distributedInfo"]).replace(groups.BACKEND, "gloo"))
    kept["deviceProperties"] = [{"id": device, "name": "emulated"}]
    kept["baseTimeNanoseconds"] = base_ns
    body = {**kept, "traceEvents": [*_names(rows), *rows], "traceName": target.name.removesuffix(".gz")}
    text = json.dumps(body, separators=(",", ":"))
    target.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def _split(text: str) -> tuple[Row, str]:
    """What stands before the events, decoded, and the text of the events."""
    head, _, events = text.partition('"traceEvents"')
    return json.loads(head.rstrip().rstrip(",") + "}"), events


def _ranges(text: str, base_ns: int) -> Iterator[Recorded]:
    """All ranges, read as the profiler writes them: of a hundred thousand rows with a dozen keys five are needed."""
    for name, pid, tid, ts, dur in _RANGE.findall(text):
        yield Recorded(name, int(pid), int(tid), base_ns + _ns(ts), _ns(dur))


def _ns(microseconds: str) -> int:
    """Exact: a float has too few digits for a time since the epoch."""
    whole, _, fraction = microseconds.partition(".")
    return int(whole) * 1000 + int((fraction + "000")[:3])


def _window(ranges: list[Recorded], step: int) -> tuple[int, int]:
    marker = f"ProfilerStep#{step}"
    for recorded in ranges:
        if recorded.name == marker:
            return recorded.start_ns, recorded.start_ns + recorded.dur_ns
    raise ValueError(f"the profiler recorded no {marker}")


def _relabel(recorded: Recorded, calls: Mapping[int, Call], device: int, base_ns: int) -> Iterator[Row]:
    if recorded.name.startswith(("@", "ProfilerStep#")):
        yield _row(recorded, base_ns, "user_annotation", recorded.name.removeprefix("@"), {})
    if not recorded.name.startswith("~"):
        return
    mark, _, number = recorded.name[1:].partition(" ")
    correlation = int(number)
    for category, name, place, args in _ROWS[mark](correlation, calls[correlation], device):
        yield _row(recorded, base_ns, category, name, args) | place


def _row(recorded: Recorded, base_ns: int, category: str, name: str, args: Row) -> Row:
    times = {"ts": (recorded.start_ns - base_ns) / 1000, "dur": recorded.dur_ns / 1000}
    return {"ph": "X", "cat": category, "name": name, "pid": recorded.pid, "tid": recorded.tid, **times, "args": args}


_Relabelled = Iterator[tuple[str, str, Row, Row]]  # category, name, overridden pid and tid, args


def _kernel(correlation: int, call: Call, device: int) -> _Relabelled:
    args = {"device": device, "stream": call.stream, "correlation": correlation, **call.args}
    if call.sequence >= 0:
        args["Seq"] = call.sequence
    yield "kernel", call.name, {"pid": device, "tid": call.stream}, args


def _launch(correlation: int, _call: Call, _device: int) -> _Relabelled:
    yield "cuda_runtime", "emuLaunchKernel", {}, {"correlation": correlation}


def _record(correlation: int, _call: Call, _device: int) -> _Relabelled:
    yield "cuda_runtime", "cudaEventRecord", {}, {"correlation": correlation}


def _wait(correlation: int, call: Call, device: int) -> _Relabelled:
    yield "cuda_runtime", "cudaStreamWaitEvent", {}, {"correlation": correlation}
    args = {
        "device": device,
        "stream": call.stream,
        "correlation": correlation,
        "wait_on_stream": call.record_stream,
        "wait_on_cuda_event_record_corr_id": call.record,
        "cuda_sync_kind": "Stream Wait Event",
    }
    yield "cuda_sync", "Stream Wait Event", {"pid": device, "tid": call.stream}, args


def _synchronize(correlation: int, _call: Call, device: int) -> _Relabelled:
    yield "cuda_runtime", "cudaDeviceSynchronize", {}, {"correlation": correlation}
    args = {"device": device, "stream": -1, "correlation": correlation, "cuda_sync_kind": "Context Sync"}
    yield "cuda_sync", "Context Sync", {"pid": device, "tid": -1}, args


def _op(_correlation: int, call: Call, _device: int) -> _Relabelled:
    args: Row = {}
    if call.args["sequence"] >= 0:
        args |= {"Sequence number": call.args["sequence"], "Fwd thread id": call.args["forward_thread"]}
    if dims := call.args["dims"]:
        args |= {"Input Dims": dims, "Input type": ["c10::BFloat16"] * len(dims)}
    yield "cpu_op", call.name, {}, args


def _comm(_correlation: int, call: Call, _device: int) -> _Relabelled:
    yield "cpu_op", call.name, {}, {**call.args, "Seq": call.sequence}


_ROWS: dict[str, Callable[[int, Call, int], _Relabelled]] = {
    "kernel": _kernel,
    "launch": _launch,
    "record": _record,
    "wait": _wait,
    "synchronize": _synchronize,
    "op": _op,
    "comm": _comm,
}


def _names(rows: list[Row]) -> Iterator[Row]:
    """Process and thread names, as Kineto writes them."""
    device_rows = [row for row in rows if row["cat"] == "kernel"]
    host = next(row for row in rows if row["cat"] == "user_annotation")
    device = device_rows[0]["pid"]
    for pid, label in ((host["pid"], "CPU"), (device, f"GPU {device}")):
        yield {"ph": "M", "name": "process_name", "ts": 0, "pid": pid, "tid": 0, "args": {"name": "python"}}
        yield {"ph": "M", "name": "process_labels", "ts": 0, "pid": pid, "tid": 0, "args": {"labels": label}}
    for stream in sorted({row["tid"] for row in device_rows}):
        name = {"name": f"stream {stream}"}
        yield {"ph": "M", "name": "thread_name", "ts": 0, "pid": device, "tid": stream, "args": name}
