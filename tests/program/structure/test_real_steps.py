"""Structure of public traces, checked by hand against the ranges that their authors drew."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from parsers import read
from replay.graph.build import build
from replay.graph.types import DEVICE_OPS, Graph
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label, unassigned_pct
from replay.program.origins import origins
from replay.program.types import Labels, Phase
from replay.trace import EventKind, Trace

WRITTEN_BY_TORCH = re.compile(r"ProfilerStep#|Optimizer\.|nccl:")
TRAINING = (  # file, steps in it
    ("ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", 5),
    ("trace_diff_control_control.json.gz", 6),
    ("nccl_parser_config_nccl_data.json.gz", 3),
    ("negative_queue_length_values_check_rank0.json.gz", 5),
)
RANGES = (("## forward ##", Phase.FORWARD), ("## backward ##", Phase.BACKWARD), ("## optimizer ##", Phase.OPTIMIZER))


@cache
def step_of(path: Path) -> tuple[Trace, Graph, Labels]:
    """The trace as recorded, and its step labelled without the ranges that its authors drew."""
    trace = read([path])
    assert isinstance(trace, Trace)
    drawn = (trace.kind == EventKind.ANNOTATION) & ~np.array(
        [bool(WRITTEN_BY_TORCH.match(name)) for name in trace.names], np.bool_
    )[trace.name]
    bare = replace(trace, kind=np.where(drawn, EventKind.OTHER, trace.kind).astype(np.int8))
    graph, world = build(bare), max(trace.world_size, 1)
    return trace, graph, label(graph, bare, Layout(dp=world, world_size=world), ModelSpec())


@pytest.mark.parametrize(("name", "steps"), TRAINING)
def test_steps(shared_data: Path, name: str, steps: int) -> None:
    _, graph, labels = step_of(shared_data / "kineto" / name)
    assert len(graph.health.steps) == steps
    assert unassigned_pct(graph, labels) <= 3.0


@pytest.mark.parametrize(("drawn", "phase"), RANGES)
@pytest.mark.parametrize("name", [name for name, _ in TRAINING])
def test_phases_are_those_of_the_ranges(shared_data: Path, name: str, drawn: str, phase: Phase) -> None:
    """Device time launched inside of the step's range; the loss lies in some authors' backward range (<= 1 %)."""
    trace, graph, labels = step_of(shared_data / "kineto" / name)
    places = origins(graph, trace)
    window = places.window_ns(trace.ranks[0])
    assert window is not None
    event = next(
        e for e in np.flatnonzero(trace.kind == EventKind.ANNOTATION).tolist()
        if trace.name_of(e) == drawn and window[0] <= trace.start_ns[e] <= window[1]
    )  # fmt: skip
    inside = (places.time_ns >= trace.start_ns[event]) & (places.time_ns < trace.end_of(event))
    inside &= np.isin(graph.kind, DEVICE_OPS)
    weight = graph.duration_ns[inside]
    assert weight[labels.phase[inside] == phase].sum() >= 0.99 * weight.sum()


@pytest.mark.parametrize("name", ["h100_Qwen_Qwen1.5-0.5B-Chat__1016005", "mi300_Qwen_Qwen1.5-0.5B-Chat__1016005"])
def test_inference_has_24_layers_and_no_backward_pass(shared_data: Path, name: str) -> None:
    """Qwen1.5-0.5B has 24 decoder layers (its config.json)."""
    _, _, labels = step_of(shared_data / "kineto" / f"{name}.json.gz")
    assert np.unique(labels.layer[labels.layer >= 0]).tolist() == list(range(24))
    assert set(labels.phase.tolist()) == {Phase.FORWARD}
