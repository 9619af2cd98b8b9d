"""Sensitivities by hand arithmetic."""

from __future__ import annotations

from replay.graph.types import OpKind
from replay.trace import CollectiveKind, Group
from replay.whatif.sensitivity import sensitivities
from tests.synthetic import Comm, Op, graph_of


def test_largest_effect_first() -> None:
    """Step 100 + 1000 + 220 = 1320: kernels ±100, link 20 more at 0.9 (220/0.9 = 244), host ±10."""
    graph = graph_of(
        [
            Op("launch", 100, lane="thread 1", kind=OpKind.CALL),
            Op("gemm", 1000, [0]),
            Op("ar", 220, [1], kind=OpKind.TRANSFER, comm=0),
        ],
        comms=[Comm(CollectiveKind.ALL_REDUCE, 0)],
        groups=[Group("1", "TENSOR_MODEL_PARALLEL_GROUP")],
    )
    effects = sensitivities(graph)
    assert [(e.parameter, e.factor, e.step_change_ns) for e in effects] == [
        ("gemm time", 0.9, -100),
        ("gemm time", 1.1, 100),
        ("tp link bandwidth", 0.9, 24),
        ("tp link bandwidth", 1.1, -20),
        ("host time", 0.9, -10),
        ("host time", 1.1, 10),
    ]
    assert effects[0].step_change_pct == 100 * -100 / 1320


def test_load_of_the_busiest_rank() -> None:
    """Rank 1 computes longest; 10 % less leaves rank 0, 95, on the path."""
    graph = graph_of([Op("mul", 95), Op("mul", 100, rank=1)])
    effects = [(e.parameter, e.factor, e.step_change_ns) for e in sensitivities(graph)]
    assert effects == [
        ("compute time", 0.9, -10),
        ("compute time", 1.1, 10),
        ("load of rank 1", 0.9, -5),
        ("load of rank 1", 1.1, 10),
    ]
