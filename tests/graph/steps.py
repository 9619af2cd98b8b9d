"""Steps by hand: Kineto events in µs, read by the real parser and built into graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import parsers
from replay.graph.build import BuildOptions, build
from replay.graph.types import Graph, OpKind, Rule
from replay.simulate.engine import simulate
from replay.trace import Trace
from tests.parsers.chrome import span, text

MAIN, AUTOGRAD = 1, 2
COMPUTE, COMM = 7, 20


def step(end: float, number: int = 1, begin: float = 0) -> dict[str, Any]:
    """A ProfilerStep range on the main thread."""
    return span(f"ProfilerStep#{number}", begin, end - begin, cat="user_annotation")


def op(name: str, ts: float, dur: float, thread: int = MAIN) -> dict[str, Any]:
    """A host operator."""
    return span(name, ts, dur, tid=thread)


def call(name: str, ts: float, dur: float, correlation: int, thread: int = MAIN) -> dict[str, Any]:
    """A runtime call."""
    return span(name, ts, dur, cat="cuda_runtime", tid=thread, args={"correlation": correlation})


def work(name: str, ts: float, dur: float, correlation: int, stream: int = COMPUTE, **more: Any) -> dict[str, Any]:
    """Device work: a kernel, or a copy or set by its name."""
    cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
    args = {"device": 0, "stream": stream, "correlation": correlation, **more}
    return span(name, ts, dur, cat=cat, pid=0, tid=stream, args=args)


def launch(name: str, at: float, start: float, dur: float, correlation: int, **more: Any) -> list[dict[str, Any]]:
    """A launch call of 5 µs and its kernel."""
    thread = more.pop("thread", MAIN)
    return [call("cudaLaunchKernel", at, 5, correlation, thread), work(name, start, dur, correlation, **more)]


def sync_row(kind: str, ts: float, correlation: int, stream: int, record: int, source: int) -> dict[str, Any]:
    """A recorded synchronisation: ``stream`` waits for the record call ``record`` on ``source``."""
    args = {
        "stream": stream,
        "correlation": correlation,
        "wait_on_stream": source,
        "wait_on_cuda_event_record_corr_id": record,
    }
    return span(kind, ts, 1, cat="cuda_sync", pid=0, tid=stream, args=args)


def trace_of(folder: Path, *ranks: list[dict[str, Any]], world: int | None = None) -> Trace:
    """A trace with one file per list of events."""
    paths = []
    for rank, events in enumerate(ranks):
        path = folder / f"rank{rank}.json"
        info = {"backend": "nccl", "rank": rank, "world_size": world or len(ranks)}
        path.write_bytes(text(events, distributedInfo=info, baseTimeNanoseconds=0))
        paths.append(path)
    trace = parsers.read(paths)
    assert isinstance(trace, Trace)
    return trace


def graph_of(folder: Path, *ranks: list[dict[str, Any]], number: int | None = None, world: int | None = None) -> Graph:
    """The graph of the step."""
    return build(trace_of(folder, *ranks, world=world), BuildOptions(step=number))


def find(graph: Graph, name: str, kind: OpKind | None = None, rank: int = 0) -> int:
    """The one op of that name (and kind, and rank)."""
    found = [
        i
        for i in range(len(graph))
        if graph.name_of(i) == name and (kind is None or graph.kind[i] == kind) and graph.rank[i] == rank
    ]
    assert len(found) == 1, (name, found)
    return found[0]


def edges_into(graph: Graph, op_index: int, rule: Rule) -> list[int]:
    """Sources of the edges of one rule into an op."""
    rows = range(int(graph.edges.offsets[op_index]), int(graph.edges.offsets[op_index + 1]))
    return [int(graph.edges.source[row]) for row in rows if graph.edges.rule[row] == rule]


def step_us(graph: Graph, *, device: float = 1, host: float = 1) -> float:
    """Simulated step in µs with device and host durations scaled."""
    on_host = np.isin(graph.kind, (OpKind.HOST, OpKind.CALL))
    factor = np.where(on_host, host, device)
    return simulate(graph.with_durations((graph.duration_ns * factor).astype(np.int64))).step_ns / 1000
