"""What broke other tools on real traces, by where it was reported. Repairs of damaged JSON are in test_damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay.trace import EventKind
from tests.parsers.chrome import call, kernel, names, read, span, text


def test_thousands_of_unstamped_kernels_leave_the_span_alone(tmp_path: Path) -> None:
    """pytorch/kineto#109: kernels with ts 0 and dur 0."""
    lost = [kernel("lost", 0, i, 0) for i in range(1, 2001)]
    trace = read(tmp_path, text([*lost, kernel("k", 4_100_200_300, 5000)]))
    assert names(trace) == ["k"]
    assert trace.health.dropped == {"device work without times (ts 0, dur 0)": 2000}


def test_overlapping_kernels_on_one_stream_are_both_kept(tmp_path: Path) -> None:
    """google/perfetto#4280: legal with programmatic dependent launch."""
    trace = read(tmp_path, text([kernel("first", 1000, 1, 10), kernel("second", 1008, 2, 10)]))
    assert trace.start_ns.tolist() == [1_000_000, 1_008_000]
    assert trace.dur_ns.tolist() == [10_000, 10_000]


@pytest.mark.parametrize("name", ["cudaLaunchKernel", "cuLaunchKernelEx", "musaLaunchKernel", "newLaunchKernel"])
def test_launches_without_kernels_are_counted_with_the_share_covered(tmp_path: Path, name: str) -> None:
    """pytorch/pytorch#192021: the profiler drops kernels outside of its window."""
    rows = [call(name, 1000 + i, i) for i in range(1, 5)]
    rows += [kernel("k", 1100 + i, i) for i in (1, 2, 3)]
    health = read(tmp_path, text(rows)).health
    assert health.launches_without_kernel == 1
    assert health.warnings[0].startswith("1 of 4 launches have no device work in the trace (75.0 % covered)")


def test_kernels_without_a_launch_or_a_correlation_are_counted_not_lost(tmp_path: Path) -> None:
    """mlcommons/chakra#194, HTA#61: window edges and unknown launch names."""
    rows = [kernel("edge", 1000, 77), kernel("untold", 1100, 0), kernel("known", 1200, 3)]
    trace = read(tmp_path, text([call("hipExtModuleLaunchKernel", 990, 3), *rows]))
    assert trace.health.kernels_without_launch == 2
    assert len(trace) == 4


def test_graph_launch_covers_all_its_kernels(tmp_path: Path) -> None:
    """HTA#290: one correlation, many kernels, told apart by their node."""
    rows = [call("cudaGraphLaunch", 1000, 5)]
    rows += [kernel(f"k{i}", 1100 + 20 * i, 5, **{"graph id": 1, "graph node id": 10 + i}) for i in range(3)]
    trace = read(tmp_path, text(rows))
    assert trace.health.kernels_without_launch == 0
    assert trace.graph_node.tolist() == [-1, 10, 11, 12]


def test_unknown_schema_version_is_read(tmp_path: Path) -> None:
    """mlcommons/chakra#198: refused outright."""
    content = text([span("a")]).replace(b'"schemaVersion": 1', b'"schemaVersion": "9.9-new"')
    assert names(read(tmp_path, content)) == ["a"]


def test_kernel_before_its_launch_is_kept_as_recorded(tmp_path: Path) -> None:
    """pytorch/kineto#1082: device and host clocks differ; aligning them is not the parser's guess."""
    trace = read(tmp_path, text([call("cudaLaunchKernel", 1010, 3), kernel("k", 1004, 3)]))
    assert names(trace) == ["k", "cudaLaunchKernel"]
    assert trace.start_ns.tolist() == [1_004_000, 1_010_000]


def test_missing_is_not_zero(tmp_path: Path) -> None:
    """traceml#188: a size that was not recorded is -1, one of 0 bytes is 0."""
    copies = [kernel("Memcpy", 1000, 1), kernel("Memcpy", 1100, 2, bytes=0)]
    trace = read(tmp_path, text([row | {"cat": "gpu_memcpy"} for row in copies]))
    assert trace.nbytes.tolist() == [-1, 0]


def test_old_category_spellings(tmp_path: Path) -> None:
    """PyTorch 1.9 to 1.11 wrote them so."""
    rows = [span(cat, 1000 + i, cat=cat) for i, cat in enumerate(("Operator", "Runtime", "Kernel", "Memcpy", "Memset"))]
    trace = read(tmp_path, text(rows))
    assert trace.kind.tolist() == [
        EventKind.CPU_OP,
        EventKind.RUNTIME,
        EventKind.KERNEL,
        EventKind.MEMCPY,
        EventKind.MEMSET,
    ]


def test_stream_of_sync_rows_is_that_of_their_args(tmp_path: Path) -> None:
    """Since 2026 Kineto moves "Stream Sync" rows to another track; -1 and 2^32-1 are no stream."""
    args = {"stream": 7, "correlation": 3, "device": 0, "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 2}
    rows = [
        span("Stream Sync", 1000, cat="cuda_sync", pid=0, tid=2_000_000_007, args=args),
        span("Context Sync", 1100, cat="cuda_sync", pid=0, tid=4294967295, args={"stream": 4294967295, "device": 0}),
    ]
    trace = read(tmp_path, text(rows))
    assert [trace.lanes[i].label for i in trace.lane] == ["stream 7", "device 0"]
    assert trace.stream.tolist() == [7, -1]
    assert (trace.wait_on_stream[0], trace.wait_on_record[0]) == (20, 2)


def test_peer_copy_names_its_devices_only(tmp_path: Path) -> None:
    """Kineto writes no "device" on peer copies: the track is the device."""
    args = {"fromDevice": 0, "inDevice": 0, "toDevice": 1, "stream": 9, "correlation": 3, "bytes": 64}
    trace = read(tmp_path, text([span("Memcpy PtoP", 1000, cat="gpu_memcpy", pid=0, tid=9, args=args)]))
    assert (trace.lanes[0].device, trace.lanes[0].stream, trace.nbytes.tolist()) == (0, 9, [64])


def test_hip_stream_handles_are_not_stream_numbers(tmp_path: Path) -> None:
    """ROCm's runtime rows hold the handle as text, its device rows the number."""
    launch = span("hipLaunchKernel", 1000, cat="cuda_runtime", args={"cid": 1, "correlation": 3, "stream": "0x55d0"})
    trace = read(tmp_path, text([launch, kernel("k", 1100, 3)]))
    assert trace.stream.tolist() == [-1, 7]


def test_only_module_calls_of_python_functions_are_kept(tmp_path: Path) -> None:
    """They can be 90 % of a trace."""
    rows = [span(name, 1000 + i, cat="python_function") for i, name in enumerate(("a.py(3): f", "nn.Module: Mlp_0"))]
    trace = read(tmp_path, text(rows))
    assert names(trace) == ["nn.Module: Mlp_0"]
    assert trace.kind.tolist() == [EventKind.MODULE]
    assert trace.health.skipped == {"python functions": 1}


def test_external_id_in_both_spellings(tmp_path: Path) -> None:
    """The old one is lower case."""
    rows = [span("a", args={"External id": 5}), span("b", 1100, args={"external id": 6})]
    assert read(tmp_path, text(rows)).external_id.tolist() == [5, 6]


def test_event_without_args(tmp_path: Path) -> None:
    """Overhead rows of some builds."""
    trace = read(tmp_path, text([json.dumps(span("Buffer Flush", cat="overhead", pid=-1, tid=0))]))
    assert trace.kind.tolist() == [EventKind.OVERHEAD]
    assert trace.correlation.tolist() == [-1]


def test_long_rubbish_between_events_is_skipped_in_time(tmp_path: Path) -> None:
    """Megabytes without a boundary, of what looks like list ends: linear, and the events around it are kept."""
    rubbish = '{"ph": "X", "args": [' + '{"}], "a": ' * 300_000
    trace = read(tmp_path, text([span("before"), rubbish, span("after", 1100)]))
    assert names(trace) == ["before", "after"]
    assert trace.health.dropped["damaged event"] >= 1
