"""Steps at op level: streams, rendezvous and the tail, by hand arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

from replay.core.evidence import Grade
from replay.program.pipeline_graph import Cost, PipelineGraph
from replay.program.recorded_steps import OpKey, Pass
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
