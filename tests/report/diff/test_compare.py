"""A change that was made is named first, with its amount, and the parts of the difference sum to it exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replay.graph.types import Graph, OpKind, Rule
from replay.report.diff.compare import compare
from replay.report.diff.types import Difference, Side
from replay.session.question import Facts
from replay.session.sides import load
from replay.trace import CollectiveKind
from tests.report.diff.edit_trace import named, side_of, slowed, stalled, synchronised

CANDIDATES = 60  # places that an edit is tried at
VISIBLE_NS = 20_000
SAMPLE = Path(__file__).resolve().parents[3] / "traces" / "moe-pp2-dp8-ep4"


@pytest.fixture(scope="module")
def sample() -> Side:
    """The shipped sample, as if its replay had been measured: then an edit is the only difference."""
    side = load(SAMPLE, Facts(), "a")
    assert side.execution is not None
    return side_of(slowed(side.execution.run.graph, np.zeros(len(side.execution.run.graph), bool), 1.0), side, "a")


def graph_of(side: Side) -> Graph:
    """The graph behind a side."""
    assert side.execution is not None
    return side.execution.run.graph


def compared(sample: Side, edited: Graph) -> Difference:
    """The sample against its edited self; whatever was done, the parts sum to the difference to the ns."""
    found = compare(sample, side_of(edited, sample, "b"))
    assert found.difference_ns == edited.measured_step_ns - sample.step_ns != 0
    assert sum(found.parts_ns.values()) == found.difference_ns
    assert all(sum(parts.values()) == found.difference_ns for parts in found.parts_by_rank_ns.values())
    return found


@pytest.mark.parametrize("factor", [1.2, 1.5, 3.0])
@pytest.mark.parametrize("kernel", ["flash_attention_bwd", "grouped_gemm_fc2_dgrad", "head_gemm_dgrad"])
def test_slower_kernel_is_named(sample: Side, kernel: str, factor: float) -> None:
    """Every kernel of one name takes longer."""
    graph = graph_of(sample)
    ops = named(graph, kernel)
    found = compared(sample, slowed(graph, ops, factor))
    first = found.causes[0]
    assert kernel in first.what
    assert first.own_after_ms - first.own_before_ms == pytest.approx(
        (factor - 1) * graph.duration_ns[ops].sum() / 1e6, rel=0.05
    )
    assert first.effect_ms == pytest.approx(found.difference_ns / 1e6, rel=0.05)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (CollectiveKind.ALL_TO_ALL, "all_to_all (ep)"),
        (CollectiveKind.ALL_REDUCE, "all_reduce"),
        (CollectiveKind.SEND, "pp"),
    ],
)
@pytest.mark.parametrize("factor", [1.5, 4.0])
def test_slower_link_is_named(sample: Side, kind: CollectiveKind, word: str, factor: float) -> None:
    """Every collective of one kind takes longer."""
    graph = graph_of(sample)
    ops = (graph.kind == OpKind.TRANSFER) & (graph.comms.kind[graph.comm] == kind)
    found = compared(sample, slowed(graph, ops, factor))
    assert word in found.causes[0].what
    assert found.causes[0].category == "collective"
    assert found.causes[0].effect_ms == pytest.approx(found.difference_ns / 1e6, rel=0.05)


def first_that_costs(graph: Graph, edit: Callable[[int], Graph], ops: np.ndarray) -> tuple[int, Graph]:
    """The first of some ops of a list at which an edit makes the step longer: most host work is hidden."""
    for op in ops[:: max(len(ops) // CANDIDATES, 1)].tolist():
        edited = edit(op)
        if edited.measured_step_ns > graph.measured_step_ns + VISIBLE_NS:
            return op, edited
    pytest.fail("no such edit makes the step longer")


@pytest.mark.parametrize("stall_ms", [100, 400])
def test_host_stall_is_named(sample: Side, stall_ms: int) -> None:
    """One host op takes much longer."""
    graph = graph_of(sample)
    host = np.flatnonzero((graph.kind == OpKind.HOST) & (graph.rank > 3))
    op, edited = first_that_costs(graph, lambda op: stalled(graph, op, stall_ms * 1_000_000), host)
    found = compared(sample, edited)
    first = found.causes[0]
    assert first.what.startswith("host work between ")
    assert first.ranks == (graph.rank[op],)
    assert first.own_after_ms - first.own_before_ms == pytest.approx(stall_ms, rel=0.05)
    assert first.effect_ms == pytest.approx(found.difference_ns / 1e6, rel=0.05)


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6])
def test_added_sync_is_named(sample: Side, place: float) -> None:
    """A device synchronisation that the first step does not have, in the stage that the step waits for."""
    graph = graph_of(sample)
    launches = np.unique(graph.edges.source[graph.edges.rule == Rule.LAUNCH])
    launches = launches[graph.rank[launches] >= 8]
    op, edited = first_that_costs(graph, lambda op: synchronised(graph, op), launches[int(place * len(launches)) :])
    found = compared(sample, edited)
    assert found.causes[0].what == "cudaDeviceSynchronize added"
    assert (found.causes[0].calls_before, found.causes[0].calls_after) == (0, 1)
    assert found.causes[0].ranks == (graph.rank[op],)
    assert found.causes[0].effect_ms == pytest.approx(found.difference_ns / 1e6, rel=0.05)


@pytest.mark.parametrize("factor", [1.5, 2.5])
def test_skewed_expert_is_named_not_the_waits(sample: Side, factor: float) -> None:
    """The experts of one rank take longer: its peers wait for it in the exchanges."""
    graph = graph_of(sample)
    ops = named(graph, "grouped_gemm") & (graph.rank == 2)
    found = compared(sample, slowed(graph, ops, factor))
    assert found.causes[0].what.startswith("experts kernels")
    assert found.causes[0].ranks == (2,)
    assert found.causes[0].effect_ms == pytest.approx(found.difference_ns / 1e6, rel=0.05)
    exchange = [row.difference_ms for row in found.waits if row.op == "all_to_all (ep)"]
    assert sum(exchange) > 0


@pytest.mark.parametrize("shared", [(), ("adam",)])
def test_steps_with_hardly_a_kernel_in_common_are_compared_by_state(sample: Side, shared: tuple[str, ...]) -> None:
    """The same program on a device whose kernels bear other names: no cause can be told, and the answer says so."""
    graph = graph_of(sample)
    compute = [c for c in np.unique(graph.name[graph.kind == OpKind.COMPUTE]).tolist() if graph.names[c] not in shared]
    names = tuple(f"other_{code}_kernel" if code in compute else name for code, name in enumerate(graph.names))
    edited = replace(slowed(graph, graph.kind == OpKind.COMPUTE, 1.5), names=names)
    found = compare(sample, side_of(edited, sample, "b"))
    assert (found.causes, found.explained_ms) == ((), None)
    assert any("less than half of the kernel time" in note for note in found.notes)
    assert sum(found.parts_ns.values()) == found.difference_ns > 0
