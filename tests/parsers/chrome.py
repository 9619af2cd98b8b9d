"""Small Chrome traces for tests: events as one line each, files as bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import parsers
from replay.trace import Trace


def span(name: str, ts: float | str = 1000, dur: float | str = 5, **more: Any) -> dict[str, Any]:
    """A complete event of a host op on thread 1."""
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def call(name: str, ts: float, correlation: int, dur: float = 2) -> dict[str, Any]:
    """A runtime call on thread 1."""
    return span(name, ts, dur, cat="cuda_runtime", args={"correlation": correlation})


def kernel(name: str, ts: float, correlation: int, dur: float = 10, **args: Any) -> dict[str, Any]:
    """A kernel on stream 7 of device 0."""
    own = {"device": 0, "stream": 7, "correlation": correlation, **args}
    return span(name, ts, dur, cat="kernel", pid=0, tid=7, args=own)


def text(events: Sequence[dict[str, Any] | str], **top: Any) -> bytes:
    """A Kineto file; strings among the events are pasted as they are."""
    body = ",\n".join(event if isinstance(event, str) else json.dumps(event) for event in events)
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in top.items())
    return f'{{"schemaVersion": 1,\n{head}"traceEvents": [\n{body}\n],\n"traceName": "t.json"\n}}\n'.encode()


def read(folder: Path, content: bytes, name: str = "trace.json") -> Trace:
    """Write one file and read it."""
    path = folder / name
    path.write_bytes(content)
    return read_paths(path)


def read_paths(*paths: Path) -> Trace:
    """Read files of one measurement."""
    trace = parsers.read(paths)
    assert isinstance(trace, Trace)
    return trace


def names(trace: Trace) -> list[str]:
    """Event names in order."""
    return [trace.name_of(i) for i in range(len(trace))]
