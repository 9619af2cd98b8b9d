"""Waits of the host that level 0 does not record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.graph.build import build
from replay.graph.types import Graph, OpKind, Rule
from replay.simulate.engine import simulate
from replay.trace import Trace
from replay.whatif import scale
from tests.parsers.ascend import folders as make

ADD = "aclnnAdd_Add_Add"


def graph_of(folder: Path, events: list[make.Event], resumes: float) -> Graph:
    """The hand-made step, whose thread 100 falls silent at 130 us and goes on with another operator."""
    operator = make.row(make.HOST, 100, "aten::view", (resumes, resumes + 10), cat="cpu_op", args={})
    make.write(folder, 0, [*events, operator])
    trace = parsers.read([folder])
    assert isinstance(trace, Trace)
    return build(trace)


def waited_for(graph: Graph) -> list[str]:
    """What the host waits for, by name."""
    edges = graph.edges
    source = edges.source[
        (edges.rule == Rule.HOST_SYNC) & np.isin(graph.kind[edges.target], (OpKind.HOST, OpKind.CALL))
    ]
    return [graph.name_of(op) for op in source.tolist()]


@pytest.mark.parametrize(("resumes", "names"), [(830, [ADD]), (900, []), (802, [ADD]), (780, [])])
def test_a_thread_that_resumes_as_its_last_work_ends_waited(tmp_path: Path, resumes: float, names: list[str]) -> None:
    """The add ends at 802: 28 us later, or at once, the thread waited for it; 98 us later, or before, it did not."""
    assert waited_for(graph_of(tmp_path, make.level0(), resumes)) == names


def test_an_operator_of_the_users_own_is_no_call_of_a_runtime(tmp_path: Path) -> None:
    """A function of autograd's launches the add by itself; its name holds no library."""
    own = make.row(make.HOST, 100, "MyLinearBackward", (100, 130), cat="cpu_op", args={})
    events = [event for event in make.level0() if not str(event.get("name")).startswith(("c10d", "Enqueue", "Dequeue"))]
    assert waited_for(graph_of(tmp_path, [*events, own], 830)) == [ADD]


def test_the_silence_behind_the_wait_is_host_work(tmp_path: Path) -> None:
    """Slower kernels delay what the host does next: all of 700 us of device work later, and 28 us."""
    graph = graph_of(tmp_path, make.level0(), 830)
    assert simulate(graph).step_ns == pytest.approx(1_000_000, rel=0.03)
    slower = simulate(scale.apply(graph, ADD, 3.0)).step_ns
    assert slower - simulate(graph).step_ns == 200_000


def test_an_operator_that_launches_hands_nothing_to_threads_of_the_host(tmp_path: Path) -> None:
    """Without the task queue c10d's operator launches the all-reduce, and nothing waits for it."""
    events = [event for event in make.level0() if event.get("cat") not in ("enqueue", "dequeue")]
    assert waited_for(graph_of(tmp_path, events, 900)) == []


def test_recorded_calls_need_no_inference(tmp_path: Path) -> None:
    """Level 1: the silence from 130 to 200 us ends in a call, and the call tells what it waits for."""
    events = [event for event in make.level1() if "Synchronize" not in str(event.get("name"))]
    assert waited_for(graph_of(tmp_path, events, 830)) == []
