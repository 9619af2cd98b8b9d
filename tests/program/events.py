"""Small traces and graphs by hand, for tests of labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Ragged
from replay.graph.types import CommTable, Edges, Graph, GraphHealth, OpKind
from replay.trace import Collectives, EventKind, Health, Lane, Trace

HOST, AUTOGRAD, DEVICE, COMM = 0, 1, 2, 3
LANES = (
    Lane(0, is_device=False, label="thread 1"),
    Lane(0, is_device=False, label="thread 2"),
    Lane(0, is_device=True, label="stream 7"),
    Lane(0, is_device=True, label="stream 27"),
)


@dataclass(frozen=True)
class Row:
    """One event: times in ns."""

    kind: EventKind
    name: str
    lane: int
    start: int
    dur: int
    correlation: int = -1
    shape: str = ""  # "Input Dims" as JSON text
    sequence: int = -1  # autograd sequence number


def span(name: str, lane: int, start: int, end: int) -> Row:
    """A named range on a host lane."""
    return Row(EventKind.ANNOTATION, name, lane, start, end - start)


def operator(name: str, lane: int, start: int, end: int, sequence: int = -1) -> Row:
    """A framework operator on a host lane."""
    return Row(EventKind.CPU_OP, name, lane, start, end - start, sequence=sequence)


def launched(
    name: str, host_lane: int, at: int, start: int, dur: int, correlation: int, lane: int = DEVICE
) -> list[Row]:
    """A kernel and the call that launched it."""
    return [
        Row(EventKind.RUNTIME, "cudaLaunchKernel", host_lane, at, 1, correlation),
        Row(EventKind.KERNEL, name, lane, start, dur, correlation),
    ]


def trace_of(rows: list[Row]) -> Trace:
    """A trace of rank 0 with these events."""
    rows = sorted(rows, key=lambda row: (row.start, -row.dur))
    names = tuple(dict.fromkeys(row.name for row in rows))
    shapes = tuple(dict.fromkeys(row.shape for row in rows if row.shape))
    n = len(rows)

    def unknown(dtype: type) -> np.ndarray:
        return np.full(n, -1, dtype)

    return Trace(
        start_ns=np.array([row.start for row in rows], np.int64),
        dur_ns=np.array([row.dur for row in rows], np.int64),
        rank=np.zeros(n, np.int32),
        lane=np.array([row.lane for row in rows], np.int32),
        name=np.array([names.index(row.name) for row in rows], np.int32),
        kind=np.array([row.kind for row in rows], np.int8),
        correlation=np.array([row.correlation for row in rows], np.int64),
        external_id=unknown(np.int64),
        sequence=np.array([row.sequence for row in rows], np.int64),
        stream=unknown(np.int64),
        wait_on_record=unknown(np.int64),
        wait_on_stream=unknown(np.int64),
        nbytes=unknown(np.int64),
        graph_node=unknown(np.int64),
        comm=unknown(np.int32),
        shape=np.array([shapes.index(row.shape) if row.shape else -1 for row in rows], np.int32),
        dtype=unknown(np.int32),
        names=names,
        shapes=shapes,
        dtypes=(),
        lanes=LANES,
        groups=(),
        collectives=no_collectives(),
        ranks=(0,),
        world_size=1,
        device="",
        epoch_ns=0,
        format="test",
        files=(),
        health=Health(),
    )


def no_collectives() -> Collectives:
    """A table without rows."""
    i32, i64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
    empty = Ragged.from_rows([])
    return Collectives(np.zeros(0, np.int8), i32, i64, i64, i64, i32, np.zeros(0, np.int8), (), empty, empty)


def graph_of(trace: Trace, comms: CommTable | None = None, comm: list[int] | None = None) -> Graph:
    """Device events of a trace as ops without edges, in event order."""
    events = np.flatnonzero(trace.is_device)
    n = len(events)
    nothing = np.zeros(0, np.int64)
    return Graph(
        duration_ns=trace.dur_ns[events].copy(),
        residual_ns=np.zeros(n, np.int64),
        ready_ns=np.zeros(n, np.int64),
        measured_start_ns=trace.start_ns[events].copy(),
        measured_end_ns=trace.end_ns[events].copy(),
        lane=trace.lane[events].copy(),
        rank=trace.rank[events].copy(),
        kind=np.full(n, OpKind.COMPUTE, np.int8),
        name=trace.name[events].copy(),
        event=events.astype(np.int64),
        comm=np.full(n, -1, np.int32) if comm is None else np.array(comm, np.int32),
        grade=np.zeros(n, np.int8),
        edges=Edges.build(n, nothing, nothing, nothing, nothing.astype(bool), nothing, nothing.astype(bool)),
        comms=comms or CommTable.empty(),
        names=trace.names,
        lanes=trace.lanes,
        groups=trace.groups,
        measured_step_ns=int(trace.end_ns.max(initial=0)),
        health=GraphHealth(),
    )
