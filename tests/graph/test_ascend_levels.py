"""A real profile of level 1, cut down to what other levels record or filled up with it: replay and what-ifs agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import parsers
from replay.graph.build import build
from replay.graph.types import Graph
from replay.report.accuracy import replay_error_pct, start_error_p95
from replay.simulate.engine import simulate
from replay.trace import Trace
from replay.whatif import link, scale

Event = dict[str, Any]
RANKS = ("rank0_ascend_pt", "rank1_ascend_pt")
SUB_TASKS = ("Notify Wait", "SDMA", "Write Value")


def process_of(events: list[Event]) -> Callable[[Event], str]:
    """Name of an event's process."""
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    return lambda event: str(names.get(event["pid"], ""))


def level0(events: list[Event]) -> list[Event]:
    """No CANN rows, no arrows from them, no planes (torch_npu prunes the first two, CANN does not make the last)."""
    process = process_of(events)
    planes = {
        (e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"].startswith("Plane")
    }
    return [
        event
        for event in events
        if process(event) != "CANN"
        and event.get("cat") != "HostToDevice"
        and (event["pid"], event["tid"]) not in planes
    ]


def without_sub_tasks(events: list[Event]) -> list[Event]:
    """Level 0 without the device tasks of collectives, and without ids of connections."""
    kept = [e for e in level0(events) if e.get("args", {}).get("Task Type") not in SUB_TASKS]
    return [e | {"args": {k: v for k, v in e.get("args", {}).items() if k != "connection_id"}} for e in kept]


def without_queue(events: list[Event]) -> list[Event]:
    """Level 0 of a job with TASK_QUEUE_ENABLE=0."""
    return [e for e in level0(events) if e.get("cat") not in ("enqueue", "dequeue", "async_task_queue")]


def level2(events: list[Event]) -> list[Event]:
    """The runtime's own calls inside of CANN's."""
    below = {"Node@launch": "KernelLaunch", "AscendCL@aclrtSynchronizeStreamWithTimeout": "StreamSynchronize"}
    inner = []
    for event in events:
        if event["ph"] == "X" and event["name"] in below:
            tenth = Decimal(str(event["dur"])) / 10
            times = {"ts": str(Decimal(event["ts"]) + tenth), "dur": float(8 * tenth)}
            inner.append(event | times | {"name": f"Runtime@{below[event['name']]}"})
    return [*events, *inner]


FORMS = (level0, without_sub_tasks, without_queue, level2)


def read(folder: Path, ranks: tuple[str, ...], form: Callable[[list[Event]], list[Event]], to: Path) -> Graph:
    """The graph of the timelines of ``ranks`` in another form."""
    for rank in ranks:
        text = (folder / rank / "ASCEND_PROFILER_OUTPUT/trace_view.json").read_text(encoding="utf-8")
        (to / rank).mkdir()
        (to / rank / "trace_view.json").write_text(json.dumps(form(json.loads(text))), encoding="utf-8")
    trace = parsers.read([to])
    assert isinstance(trace, Trace)
    return build(trace)


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    """The profile."""
    return shared_data / "ascend" / "torch_npu_level1"


@pytest.mark.parametrize("ranks", [RANKS, RANKS[:1], RANKS[1:]])
@pytest.mark.parametrize("form", FORMS)
def test_the_step_replays(
    folder: Path, tmp_path: Path, form: Callable[[list[Event]], list[Event]], ranks: tuple[str, ...]
) -> None:
    graph = read(folder, ranks, form, tmp_path)
    timeline = simulate(graph)
    assert replay_error_pct(graph, timeline) <= 3
    error = start_error_p95(graph, timeline)
    assert error is not None and error.p95_pct <= 5


@pytest.mark.parametrize("form", FORMS)
def test_what_ifs_agree_with_level_1(folder: Path, tmp_path: Path, form: Callable[[list[Event]], list[Event]]) -> None:
    """A device, host or network of half or twice the speed moves the step as at level 1, within 5 % of the step."""

    def moved(graph: Graph) -> list[float]:
        base = simulate(graph, residuals=True).step_ns
        edits = [scale.apply(graph, name, factor) for name in ("@device", "@host") for factor in (0.5, 2.0)]
        edits += [link.apply(graph, "all", factor) for factor in (0.5, 2.0)]
        return [simulate(edit, residuals=True).step_ns / base for edit in edits]

    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = moved(read(folder, RANKS, lambda events: events, tmp_path / "whole"))
    assert moved(read(folder, RANKS, form, tmp_path / "cut")) == pytest.approx(whole, abs=0.05)
