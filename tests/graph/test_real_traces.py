"""Baselines of real traces against the bars of the design (R5, R2): no residuals, modelled lags only."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.graph.build import build
from replay.graph.types import Graph, OpKind, Rule
from replay.report.accuracy import replay_error_pct, start_error_p95
from replay.simulate.engine import simulate
from replay.trace import Trace

BARS = [  # file, replay error %, start error p95 %
    ("deepseek_v3_train_h800.json", 1, 3),
    ("nccl_parser_config_nccl_data.json.gz", 1, 3),
    ("ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", 1, 3),
    ("h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 1, 3),
    ("mi300_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 1, 3),
    ("trace_diff_control_control.json.gz", 2, 4),
    ("dlrm_kineto.tar.gz", 2, 4),
    ("negative_queue_length_values_check_rank0.json.gz", 5, 5),
]


@cache
def graph_of(path: Path) -> Graph:
    """Graph of the default step."""
    trace = parsers.read([path])
    assert isinstance(trace, Trace)
    return build(trace)


@pytest.mark.shared
@pytest.mark.parametrize(("name", "error_pct", "start_pct"), BARS)
def test_the_baseline_is_reproduced(shared_data: Path, name: str, error_pct: float, start_pct: float) -> None:
    graph = graph_of(shared_data / "kineto" / name)
    timeline = simulate(graph)
    assert abs(replay_error_pct(graph, timeline)) <= error_pct
    start = start_error_p95(graph, timeline)
    assert start is not None
    assert start.p95_pct <= start_pct
    assert start.basis == "device ops"


@pytest.mark.shared
@pytest.mark.parametrize(("name", "error_pct", "start_pct"), BARS)
def test_residuals_reproduce_the_measured_step_exactly(
    shared_data: Path, name: str, error_pct: float, start_pct: float
) -> None:
    graph = graph_of(shared_data / "kineto" / name)
    assert simulate(graph, residuals=True).step_ns == graph.measured_step_ns


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", ["ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
             "negative_queue_length_values_check_rank0.json.gz"]
)  # fmt: skip
def test_waiting_is_not_copied_into_calls(shared_data: Path, name: str) -> None:
    """R2: launch and copy calls hold less than 5 % of the step (their recorded durations hold up to 45 %)."""
    graph = graph_of(shared_data / "kineto" / name)
    assert graph.duration_ns[graph.kind == OpKind.CALL].sum() < 0.05 * graph.measured_step_ns


@pytest.mark.shared
def test_a_recorded_event_sync_waits_for_what_was_recorded(shared_data: Path) -> None:
    """The trace launches a spin kernel, records an event after it and synchronises the host on that event."""
    graph = graph_of(shared_data / "kineto" / "critical_path_cuda_event_sync_event_sync_trace.json.gz")
    syncs = np.flatnonzero((graph.edges.rule == Rule.HOST_SYNC) & graph.edges.recorded)
    assert "spin_kernel" in " ".join(graph.name_of(int(graph.edges.source[edge])) for edge in syncs)


@pytest.mark.shared
def test_the_dropped_graph_nodes_are_named(shared_data: Path) -> None:
    graph = graph_of(shared_data / "kineto" / "negative_queue_length_values_check_rank0.json.gz")
    assert any("CUDA graphs without a recorded node" in warning for warning in graph.health.warnings)
