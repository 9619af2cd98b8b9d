"""Steps at op level: streams, rendezvous and the tail, by hand arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from replay.core.errors import TraceError
from replay.core.evidence import Grade
from replay.program.pipeline_graph import Cost, PipelineGraph
from replay.program.real_messages import real_messages
from replay.program.recorded_steps import OpKey, Pass, RecordedStep, Span, rank_orders
from replay.program.worker_ops import WorkerSpec, worker_graph
from replay.simulate.engine import simulate
from tests.pipeline_recordings import MS, layout_of

TAIL = {"grads-reduce-scatter": 5, "optimizer-clip-main-grad": 1, "optimizer": 4}


def graph_of(
    p: int, m: int, times_ms: Mapping[str, float], dp: int = 1, slow: Mapping[tuple[int, str], float] | None = None
) -> PipelineGraph:
    """Workers whose ops take ``times_ms`` by type; ``slow`` overrides by (dp rank, type). Unlisted ops do not run."""

    def cost(op: Pass | OpKey) -> Cost:
        ms = (slow or {}).get((op.dp_rank, op.op_type), times_ms.get(op.op_type, 0))
        return Cost(round(ms * MS), Grade.MEASURED)

    counts = {(stage, name): 1 for stage in range(p) for name in times_ms if not name.endswith(("compute", "nd", "cv"))}
    layout = layout_of(p, m)
    return worker_graph(WorkerSpec(layout, range(dp), counts, cost))


def step_ms(graph: PipelineGraph) -> float:
    """Simulated step."""
    return simulate(graph.graph).step_ns / MS


def test_one_worker_runs_its_ops_one_after_another() -> None:
    """Gather 3, two forwards, two backwards, tail 5 + 1 + 4."""
    times = {"params-all-gather": 3, "forward-compute": 10, "backward-compute": 20, **TAIL}
    assert step_ms(graph_of(1, 2, times)) == 3 + 2 * 30 + 10


def test_messages_lie_on_the_way_through_the_stages() -> None:
    """p = 2, m = 1, 2 ms a transfer: both passes of both stages and two messages."""
    times = {"forward-compute": 10, "backward-compute": 20, "forward-recv": 2, "backward-recv": 2}
    assert step_ms(graph_of(2, 1, times)) == 2 * 30 + 4


def test_compute_never_waits_for_its_own_send() -> None:
    """A send of 7 ms delays nobody but its stream: the receiver's transfer decides when it has the data."""
    times = {"forward-compute": 10, "backward-compute": 20, "forward-send": 7}
    assert step_ms(graph_of(2, 4, times)) == (4 + 1) * 30


def test_gradients_wait_for_the_slowest_replica() -> None:
    """Replica 1 computes 50 ms longer; the reduce-scatter starts when it is there too."""
    times = {"forward-compute": 10, "backward-compute": 20, **TAIL}
    assert step_ms(graph_of(1, 1, times, dp=2, slow={(1, "backward-compute"): 70})) == 80 + 10


def test_clipping_joins_all_stages() -> None:
    """p = 2, m = 1: stage 1 is done 22 ms before stage 0, its optimizer is not."""
    times = {"forward-compute": 10, "backward-compute": 20, "backward-recv": 2, **TAIL}
    graph = graph_of(2, 1, times)
    timeline = simulate(graph.graph)
    ends = {op.stage: end / MS for op, end in zip(graph.ops, timeline.end_ns, strict=True) if op.op_type == "optimizer"}
    assert ends == {0: 62 + 10, 1: 62 + 10}


def test_overlapped_reduce_scatters_run_beside_the_backward() -> None:
    """2 chunks on one of 2 ranks' stages: the last chunk's gradients leave while the first chunk still computes.

    Without overlap the step ends after the last backward + 2·5 + 1 + 4; with it, one of the two is hidden.
    """
    times = {"forward-compute": 10, "backward-compute": 20, **TAIL}
    layout = layout_of(2, 2, 2)

    def step(extra: dict[str, float]) -> float:
        def cost(op: Pass | OpKey) -> Cost:
            return Cost(round({**times, **extra}.get(op.op_type, 0) * MS), Grade.MEASURED)

        counts = {(stage, name): 1 for stage in (0, 1) for name in ("optimizer-clip-main-grad", "optimizer", *extra)}
        counts |= {(stage, "grads-reduce-scatter"): 2 for stage in (0, 1)}
        return step_ms(worker_graph(WorkerSpec(layout, (0,), counts, cost)))

    assert step({}) - step({"separate-grads-all-reduce": 0}) == 5


@pytest.mark.parametrize(("recorded", "kept"), [(4, [0, 1, 2, 3]), (8, [2, 3, 6, 7]), (7, [1, 2, 5, 6])])
def test_messages_that_moved_nothing_are_taken_out(recorded: int, kept: list[int]) -> None:
    """p = 2, v = 2, m = 4: stage 0 receives for its second chunk only, whose forwards are its 3rd, 4th, 7th and 8th.

    Recorded are just those, one for every pass, or one for every pass but the first.
    """
    layout = layout_of(2, 4, 2)
    spans = {OpKey(0, 0, "forward-recv", k): Span(k, k + 1) for k in range(recorded)}
    step = RecordedStep(0, 0, 100, {}, spans)
    found = real_messages(step, layout, rank_orders(layout)).others
    assert [span.start_ns for span in found.values()] == kept


def test_messages_that_fit_no_count_are_an_error() -> None:
    """5 receives for 8 passes of which 4 need one."""
    layout = layout_of(2, 4, 2)
    spans = {OpKey(0, 0, "forward-recv", k): Span(k, k + 1) for k in range(5)}
    with pytest.raises(TraceError, match="recorded 5 forward-recv for 8 passes, 4 of which need one"):
        real_messages(RecordedStep(0, 0, 100, {}, spans), layout, rank_orders(layout))
