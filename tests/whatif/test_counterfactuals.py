"""What-ifs on real traces, against bounds worked out from the breakdown of the replayed step.

The bounds follow from paths: ops of one path run one after the other, so the device ops of a path last no longer than
the time in which some device op runs, and its host ops no longer than the time in which some host op runs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from parsers import read
from replay.graph.build import build
from replay.graph.types import DEVICE_OPS, Graph, OpKind
from replay.report.breakdown import State, breakdown
from replay.simulate.engine import simulate
from replay.trace import Trace
from replay.whatif import scale
from tests.conftest import SHARED

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="needs the real inputs in ../shared/data"),
]
DEVICE_BOUND = "ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
LAUNCH_BOUND = "nccl_parser_config_nccl_data.json.gz"
DEEPSEEK = "deepseek_v3_train_h800.json"
HOST_OPS = (OpKind.HOST, OpKind.CALL)
OVERLAPPED = "trace_diff_control_control.json.gz"


@cache
def graph(name: str) -> Graph:
    trace = read([Path(SHARED, "kineto", name)])
    assert isinstance(trace, Trace)
    return build(trace)


def step_of(name: str, target: str = "@all", factor: float = 1.0) -> int:
    return simulate(scale.apply(graph(name), target, factor)).step_ns


def busy_share(name: str, *kinds: OpKind) -> float:
    """Share of the replayed step in which some op of these kinds runs."""
    timeline = simulate(graph(name))
    chosen = np.isin(graph(name).kind, kinds)
    busy, until = 0, 0
    for start, end in sorted(zip(timeline.start_ns[chosen].tolist(), timeline.end_ns[chosen].tolist(), strict=True)):
        busy += max(0, end - max(start, until))
        until = max(until, end)
    return busy / timeline.step_ns


@pytest.mark.parametrize("name", [DEVICE_BOUND, LAUNCH_BOUND, DEEPSEEK, OVERLAPPED])
def test_doubled_device_ops_add_no_more_than_the_devices_busy_time(name: str) -> None:
    assert 1 <= step_of(name, "@device", 2.0) / step_of(name) <= 1 + busy_share(name, *DEVICE_OPS)


@pytest.mark.parametrize("name", [DEVICE_BOUND, LAUNCH_BOUND, DEEPSEEK, OVERLAPPED])
def test_a_host_twice_as_fast_saves_no_more_than_half_its_busy_time(name: str) -> None:
    assert 1 >= step_of(name, "@host", 0.5) / step_of(name) >= 1 - busy_share(name, *HOST_OPS) / 2


def test_a_device_bound_step_follows_the_device() -> None:
    """Its device is busy 98.9 % of the step, nearly all on one stream."""
    assert 1.9 <= step_of(DEVICE_BOUND, "@device", 2.0) / step_of(DEVICE_BOUND) <= 2.0
    assert step_of(DEVICE_BOUND, "@host", 0.5) / step_of(DEVICE_BOUND) >= 0.95


def test_a_launch_bound_step_follows_the_host() -> None:
    """Its device is busy 22 % of the step, all of it while the host works on."""
    assert step_of(LAUNCH_BOUND, "@device", 2.0) / step_of(LAUNCH_BOUND) <= 1.22
    assert step_of(LAUNCH_BOUND, "@host", 0.5) / step_of(LAUNCH_BOUND) <= 0.6


@pytest.mark.parametrize("name", [DEEPSEEK, OVERLAPPED, LAUNCH_BOUND])
def test_free_transfers_save_no_more_than_their_exposed_time(name: str) -> None:
    exposed = [state for state in State if State.EXPOSED_TP <= state <= State.WAIT]
    of_one_rank = breakdown(graph(name), simulate(graph(name))).time_ns[0]
    saved = step_of(name) - step_of(name, "@comm", 0.0)
    assert 0 <= saved <= of_one_rank[exposed].sum()
