"""The program found in a step, as counts, costs and shares."""

from __future__ import annotations

import pytest

from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.report.structure import StructureFacts, structure
from tests.program.events import HOST, Row, graph_of, launched, span, trace_of


def facts(*ranges: tuple[str, int]) -> StructureFacts:
    """Structure of kernels of the given ns, each launched under its own nest of ranges (separated by ``/``)."""
    rows: list[Row] = []
    for index, (names, ns) in enumerate(ranges):
        at = 100 * index
        rows += [span(name, HOST, at + depth, at + 50 - depth) for depth, name in enumerate(names.split("/"))]
        rows += launched("gemm", HOST, at + 25, at + 30, ns, index + 1)
    trace = trace_of(rows)
    graph = graph_of(trace)
    return structure(graph, label(graph, trace, Layout(), ModelSpec()))


def test_costs_of_layers_are_means_over_micro_batches() -> None:
    found = facts(
        ("forward microbatch=0/mlp layer=0", 10),
        ("forward microbatch=1/mlp layer=0", 20),
        ("backward microbatch=0/mlp layer=0", 40),
        ("backward microbatch=1/mlp layer=0", 50),
    )
    row = found.layer_costs[0]
    assert row.kind == "dense"
    assert row.forward_ms == pytest.approx(15e-6)
    assert row.backward_ms == pytest.approx(45e-6)
    assert (found.layers, found.microbatches) == (1, 2)
    assert found.phase_share_pct == {"forward": pytest.approx(25.0), "backward": pytest.approx(75.0)}


def test_layers_with_experts_are_another_kind() -> None:
    found = facts(("forward/mlp layer=0", 10), ("forward/experts layer=1", 10))
    assert found.kinds == {"dense": 1, "moe": 1}


def test_what_nothing_explains_is_unassigned() -> None:
    assert facts(("forward", 30), ("something", 10)).unassigned_pct == pytest.approx(25.0)
