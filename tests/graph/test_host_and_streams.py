"""Host order, launches, streams and syncs: times by hand in µs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from replay.graph.calls import CallKind, call_kind
from replay.graph.types import OpKind, Rule
from tests.graph.steps import (
    AUTOGRAD,
    COMM,
    call,
    edges_into,
    find,
    graph_of,
    launch,
    op,
    step,
    step_us,
    sync_row,
    work,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernelExC", CallKind.LAUNCH),
        ("hipExtModuleLaunchKernel", CallKind.LAUNCH),
        ("cuLaunchKernelEx", CallKind.LAUNCH),
        ("cudaMemsetAsync", CallKind.LAUNCH),
        ("cudaGraphLaunch_ptsz", CallKind.GRAPH_LAUNCH),
        ("hipMemcpyWithStream", CallKind.COPY),
        ("cudaDeviceSynchronize", CallKind.SYNC_DEVICE),
        ("hipStreamSynchronize", CallKind.SYNC_STREAM),
        ("cudaEventSynchronize", CallKind.SYNC_EVENT),
        ("cudaEventRecordWithFlags", CallKind.EVENT_RECORD),
        ("cuStreamWaitEvent", CallKind.STREAM_WAIT),
        ("cudaFree", CallKind.ALLOC),
        ("cudaEventQuery", CallKind.NONE),
        ("cudaFreeAsync", CallKind.ALLOC),
        ("cudaFuncGetAttributes", CallKind.NONE),
    ],
)
def test_a_call_is_known_by_its_api_name(name: str, kind: CallKind) -> None:
    assert call_kind(name) == kind


def test_launch_bound_work_follows_the_host(tmp_path: Path) -> None:
    """Four kernels of 10 µs, launched every 100 µs, each starting 7 µs after its call: device speed is irrelevant."""
    events = [step(400)]
    for i in range(4):
        events += launch("k", 100 * i, 100 * i + 7, 10, i + 1)
    graph = graph_of(tmp_path, events)
    assert graph.health.launch_latency_ns == 7_000
    assert step_us(graph) == pytest.approx(400)
    assert step_us(graph, device=2) == pytest.approx(400)
    assert step_us(graph, host=0.5) == pytest.approx(200)


def test_device_bound_work_follows_the_device(tmp_path: Path) -> None:
    """Ten kernels of 100 µs launched every 10 µs end at 7 + 1000 µs; back to back they have no gap."""
    events = [step(100)]
    for i in range(10):
        events += launch("k", 10 * i, 7 + 100 * i, 100, i + 1)
    graph = graph_of(tmp_path, events)
    assert graph.measured_step_ns == 1_007_000
    assert step_us(graph, device=2) == pytest.approx(2007)
    assert step_us(graph, host=0.5) == pytest.approx(1007)


def test_a_device_sync_waits_instead_of_costing_its_duration(tmp_path: Path) -> None:
    """The host waits 493 µs for a 500 µs kernel; with the kernel at half, the step shrinks by 250 µs."""
    events = [
        step(600),
        *launch("k", 0, 7, 500, 1),
        call("cudaDeviceSynchronize", 10, 500, 2),
        op("aten::add", 520, 80),
    ]
    graph = graph_of(tmp_path, events)
    assert step_us(graph) == pytest.approx(600)
    assert step_us(graph, device=0.5) == pytest.approx(350)


def test_a_pageable_copy_waits_for_itself(tmp_path: Path) -> None:
    """A copy behind a 300 µs kernel blocks its caller until 5 µs after it is done."""
    copy = "Memcpy DtoH (Device -> Pageable)"
    events = [step(500), *launch("k", 0, 7, 300, 1), call("cudaMemcpyAsync", 10, 304, 2), work(copy, 307, 2, 2)]
    graph = graph_of(tmp_path, events)
    assert step_us(graph, device=0.5) == pytest.approx(500 - 151, abs=1)


def test_a_full_launch_queue_is_an_edge(tmp_path: Path) -> None:
    """A queue of 80: launch i ends 6 µs after kernel i - 80. Of a wait only what could be noise (10 µs) stays with the
    call, and the kernels set the pace."""
    events, n, depth = [], 300, 80
    end = [7 + 100 * (i + 1) for i in range(n)]
    now = 0.0
    for i in range(n):
        done = max(now + 5, end[i - depth] + 6) if i >= depth else now + 5
        events += [call("cudaLaunchKernel", now, done - now, i + 1), work("k", end[i] - 100, 100, i + 1)]
        now = done + 1
    graph = graph_of(tmp_path, [step(now), *events])
    waits = graph.edges.rule == Rule.QUEUE
    assert waits.sum() == n - depth
    calls = graph.kind == OpKind.CALL
    assert graph.duration_ns[calls].max() <= 15_000
    assert step_us(graph) == pytest.approx(30_007, rel=1e-3)
    assert step_us(graph, device=2) == pytest.approx(60_007, rel=1e-3)


def test_a_call_that_loads_a_module_submits_at_its_end(tmp_path: Path) -> None:
    """A launch of 5000 µs without a queue to wait for keeps its cost, and its kernel starts after it."""
    events = [step(5600)]
    for i in range(4):
        events += launch("k", 100 * i, 100 * i + 7, 10, i + 1)
    events += [call("cudaLaunchKernel", 400, 5000, 9), work("late", 5402, 10, 9)]
    graph = graph_of(tmp_path, events)
    late = find(graph, "late")
    assert graph.residual_ns[late] == 0
    assert step_us(graph) == pytest.approx(5600)


def test_a_recorded_event_orders_two_streams(tmp_path: Path) -> None:
    """Stream 20 waits for the event recorded after ``a`` on stream 7: edge a → b, although c ran meanwhile."""
    events = [
        step(100),
        *launch("a", 0, 7, 200, 1),
        call("cudaEventRecord", 10, 1, 2),
        *launch("c", 20, 207, 300, 3),
        call("cudaStreamWaitEvent", 30, 1, 4),
        sync_row("Stream Wait Event", 30, 4, COMM, 2, 7),
        *launch("b", 40, 209, 50, 5, stream=COMM),
    ]
    graph = graph_of(tmp_path, events)
    assert edges_into(graph, find(graph, "b"), Rule.EVENT) == [find(graph, "a")]


def test_a_record_stands_for_what_its_stream_waits_for(tmp_path: Path) -> None:
    """Stream 7 is told to wait for x, then its event is recorded with no work between: y waits for x."""
    events = [
        step(100),
        *launch("x", 0, 7, 200, 1, stream=COMM),
        call("cudaEventRecord", 10, 1, 2),
        call("cudaStreamWaitEvent", 12, 1, 3),
        sync_row("Stream Wait Event", 12, 3, 7, 2, COMM),
        call("cudaEventRecord", 14, 1, 4),
        call("cudaStreamWaitEvent", 16, 1, 5),
        sync_row("Stream Wait Event", 16, 5, 30, 4, 7),
        *launch("y", 20, 209, 50, 6, stream=30),
        *launch("z", 30, 209, 5, 7),
    ]
    graph = graph_of(tmp_path, events)
    assert edges_into(graph, find(graph, "y"), Rule.EVENT) == [find(graph, "x")]


def test_an_event_without_ids_is_inferred_from_the_order_of_calls(tmp_path: Path) -> None:
    events = [
        step(100),
        *launch("a", 0, 7, 200, 1),
        call("cudaStreamWaitEvent", 10, 1, 2),
        *launch("b", 20, 210, 50, 3, stream=COMM),
    ]
    graph = graph_of(tmp_path, events)
    b = find(graph, "b")
    assert edges_into(graph, b, Rule.EVENT) == [find(graph, "a")]
    assert not graph.edges.recorded[graph.edges.rule == Rule.EVENT].any()


def test_an_inferred_event_that_contradicts_the_measurement_is_dropped(tmp_path: Path) -> None:
    """b began while a still ran, so it cannot have waited for it."""
    events = [
        step(100),
        *launch("a", 0, 7, 200, 1),
        call("cudaStreamWaitEvent", 10, 1, 2),
        *launch("b", 20, 30, 50, 3, stream=COMM),
    ]
    graph = graph_of(tmp_path, events)
    assert edges_into(graph, find(graph, "b"), Rule.EVENT) == []
    assert graph.health.dropped_edges == 1


def test_autograd_runs_while_the_main_thread_waits(tmp_path: Path) -> None:
    """Forward until 100 on the main thread, backward 150 to 450 on the autograd thread, optimizer 480 to 500: halving
    host work halves all of it, wake-ups included, and nothing is counted twice."""
    events = [
        step(500),
        op("aten::forward", 0, 100),
        op("aten::backward", 150, 300, thread=AUTOGRAD),
        op("aten::step", 480, 20),
        *launch("k", 482, 484, 5, 1),
    ]
    graph = graph_of(tmp_path, events)
    assert (graph.edges.rule == Rule.HANDOVER).sum() == 2
    assert step_us(graph) == pytest.approx(500)
    assert step_us(graph, host=0.5) == pytest.approx(250)
    assert step_us(graph, host=2) == pytest.approx(1000)


def test_a_thread_released_right_after_a_sync_waits_for_it_too(tmp_path: Path) -> None:
    """The backward begins as the sync returns, 3 us after a 500 us kernel: with the kernel at half, 250 us earlier."""
    events = [
        step(800),
        *launch("k", 0, 7, 500, 1),
        call("cudaDeviceSynchronize", 10, 500, 2),
        op("aten::backward", 512, 200, thread=AUTOGRAD),
        op("aten::step", 730, 70),
    ]
    graph = graph_of(tmp_path, events)
    assert step_us(graph) == pytest.approx(800)
    assert step_us(graph, device=0.5) == pytest.approx(550)


def test_a_full_device_holds_back_another_stream(tmp_path: Path) -> None:
    """b is free at 27 µs but starts when the 500 µs kernel a lets go: with a at half, b follows."""
    events = [step(100), *launch("a", 0, 7, 500, 1), *launch("b", 20, 508, 100, 2, stream=COMM)]
    graph = graph_of(tmp_path, events)
    b = find(graph, "b")
    assert edges_into(graph, b, Rule.OCCUPANCY) == [find(graph, "a")]
    assert step_us(graph, device=0.5) == pytest.approx(7 + 250 + 1 + 50)


def test_residuals_reproduce_the_measurement(tmp_path: Path) -> None:
    """A kernel delayed by 40 µs for no known reason: its residual is that delay."""
    events = [step(400)]
    for i in range(4):
        events += launch("k", 100 * i, 100 * i + (47 if i == 3 else 7), 10, i + 1)
    graph = graph_of(tmp_path, events)
    assert sorted(np.unique(graph.residual_ns)) == [0, 40_000]


def test_overlap_on_one_stream_is_kept(tmp_path: Path) -> None:
    """Programmatic dependent launch: the second kernel starts 2 µs before the first ends."""
    events = [step(50), *launch("a", 0, 7, 100, 1), *launch("b", 10, 105, 100, 2)]
    graph = graph_of(tmp_path, events)
    assert step_us(graph) == pytest.approx(205)
    assert step_us(graph, device=2) == pytest.approx(7 + 200 - 2 + 200)


def test_a_regular_gap_that_no_device_takes_is_a_residual(tmp_path: Path) -> None:
    """Ten kernels of 100 us, launched at once, 1 ms apart: 0.1 ms of each gap may be the stream's, the rest is not."""
    events = [step(100)]
    for i in range(10):
        events += launch("k", 10 * i, 7 + 1100 * i, 100, i + 1)
    graph = graph_of(tmp_path, events)
    assert sorted(graph.residual_ns)[-9:] == [900_000] * 9
    assert step_us(graph) == pytest.approx(7 + 10 * 100 + 9 * 100)


def test_several_kernels_of_one_plain_launch_are_no_device_graph(tmp_path: Path) -> None:
    """Their gap is the stream's, and nothing is said of dropped nodes."""
    events = [step(300), call("cudaLaunchKernel", 0, 5, 1), work("a", 7, 50, 1), work("b", 100, 50, 1)]
    graph = graph_of(tmp_path, events)
    assert edges_into(graph, find(graph, "b"), Rule.STREAM_ORDER) == [find(graph, "a")]
    assert graph.health.unrecorded_ns == 0
