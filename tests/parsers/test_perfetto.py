"""Perfetto traces: SQL rows to a trace (without a trace processor), and whole files where one is installed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import parsers
from parsers import perfetto
from parsers._combine import combine
from replay.core.errors import TraceError
from replay.trace import CollectiveKind, EventKind

SECOND = 10**9


@dataclass
class FakeDatabase:
    """Answers each query from a list of rows."""

    slices: list[dict[str, Any]]
    args: list[tuple[int, str, Any]] = field(default_factory=list)
    threads: list[dict[str, Any]] = field(default_factory=list)
    losses: list[tuple[str, int]] = field(default_factory=list)

    def query(self, sql: str) -> list[SimpleNamespace]:
        """Rows with columns as attributes, as the package gives them."""
        if sql == perfetto.ARGS:
            return [SimpleNamespace(arg_set_id=i, key=key, value=value) for i, key, value in self.args]
        if sql == perfetto.LOSSES:
            return [SimpleNamespace(name=name, value=value) for name, value in self.losses]
        return [SimpleNamespace(**row) for row in (self.slices if sql == perfetto.SLICES else self.threads)]


def row(name: str, ts: int, dur: int, category: str | None = "cpu_op", **more: Any) -> dict[str, Any]:
    """A slice on thread 1 of process 1."""
    return {"name": name, "ts": ts, "dur": dur, "category": category, "arg_set_id": None, "tid": 1, "pid": 1, **more}


def test_slices_become_events_to_the_nanosecond() -> None:
    """Kinds, lanes and args are those of the same events in JSON."""
    database = FakeDatabase(
        slices=[
            row("aten::mm", 17 * SECOND + 1, 501, arg_set_id=1),
            row("cudaLaunchKernel", 17 * SECOND + 100, 50, "cuda_runtime", arg_set_id=2),
            row("ncclDevKernel_SendRecv", 17 * SECOND + 900, 1000, "kernel", pid=0, tid=7, arg_set_id=3),
        ],
        args=[
            (1, "args.Input Dims[0][0]", 2),
            (1, "args.Input Dims[0][1]", 3),
            (1, "args.Input Dims[2][0]", 4),
            (2, "debug.correlation", 9),
            (3, "args.correlation", 9),
            (3, "args.device", 0),
            (3, "args.stream", 7),
            (3, "args.Collective name", "all_to_allv"),
            (3, "args.In msg nelems", 10),
            (3, "args.dtype", "Float"),
        ],
        threads=[{"tid": 1, "name": "main", "pid": 1}],
        losses=[("slice_drop_overlapping_complete_event", 4)],
    )
    trace = combine([perfetto.read_database(database, "t.pftrace")], perfetto.FORMAT)
    assert trace.kind.tolist() == [EventKind.CPU_OP, EventKind.RUNTIME, EventKind.KERNEL]
    assert trace.start_ns.tolist() == [17 * SECOND + 1, 17 * SECOND + 100, 17 * SECOND + 900]
    assert trace.dur_ns.tolist() == [501, 50, 1000]
    assert trace.shapes == ("[[2,3],[],[4]]",)
    assert [lane.label for lane in trace.lanes] == ["main", "stream 7"]
    assert trace.collectives.kind.tolist() == [CollectiveKind.ALL_TO_ALL]
    assert trace.collectives.in_nbytes.tolist() == [40]
    assert trace.health.kernels_without_launch == 0
    assert trace.health.dropped == {"trace processor: slice_drop_overlapping_complete_event": 4}


def test_unfinished_slice_is_dropped_with_its_reason() -> None:
    """Its duration is -1."""
    content = perfetto.read_database(FakeDatabase([row("a", 1, 5), row("b", 2, -1)]), "t")
    assert content.health.dropped == {"no usable duration": 1}


def test_no_slices_is_one_sentence() -> None:
    """Not an empty trace."""
    with pytest.raises(TraceError, match="t: 0 slices"):
        perfetto.read_database(FakeDatabase([]), "t")


@pytest.mark.parametrize(
    ("head", "name", "verdict"),
    [
        (b"\x0a\x02\x08\x01\x0a\x02\x08\x01", "x", True),
        (b"\x0a\x02\x08\x01", "x.pftrace", True),
        (b"\x0a\x02\x08\x01", "x.bin", False),
        (b"\nhello\n", "x.txt", False),
        (b"\n\x21" + b"x" * 33 + b"\n\x21" + b"x" * 33, "x.py", False),
        (b"\x0a\x00", "x.pftrace", False),
    ],
)
def test_sniff_looks_at_the_packets(head: bytes, name: str, verdict: bool) -> None:
    """Tag, length, next tag."""
    assert perfetto.sniff(head, Path(name)) is verdict


def pftrace(path: Path) -> Path:
    """Two slices on one thread, written with the package's own builder."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent  # noqa: PLC0415
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder  # noqa: PLC0415

    builder = TraceProtoBuilder()
    packet = builder.add_packet()
    packet.track_descriptor.uuid = 1
    packet.track_descriptor.thread.pid = packet.track_descriptor.thread.tid = 5
    packet.track_descriptor.thread.thread_name = "main"
    edges = [(1000, "outer"), (1100, "inner"), (1250, None), (1900, None)]
    for ts, name in edges:
        packet = builder.add_packet()
        packet.timestamp = ts
        packet.trusted_packet_sequence_id = 1
        packet.track_event.track_uuid = 1
        packet.track_event.type = TrackEvent.TYPE_SLICE_BEGIN if name else TrackEvent.TYPE_SLICE_END
        if name:
            packet.track_event.name = name
    path.write_bytes(builder.serialize())
    return path


def test_file_without_a_trace_processor_says_how_to_get_one(tmp_path: Path) -> None:
    """The format is recognised; the program that is named does not exist."""
    options = parsers.ReadOptions(trace_processor=str(tmp_path / "none"))
    with pytest.raises(TraceError, match="no such trace processor"):
        parsers.read([pftrace(tmp_path / "t.pftrace")], options)


@pytest.mark.skipif(
    shutil.which("trace_processor_shell") is None and shutil.which("trace_processor") is None,
    reason="needs Perfetto's trace_processor_shell on the PATH",
)
def test_file_with_a_trace_processor(tmp_path: Path) -> None:
    """Begin and end packets are slices."""
    trace = parsers.read([pftrace(tmp_path / "t.pftrace")])
    assert isinstance(trace, parsers.Trace)
    assert [trace.name_of(i) for i in range(len(trace))] == ["outer", "inner"]
    assert trace.dur_ns.tolist() == [900, 150]
