"""How much of the optimizer's work is for experts."""

import numpy as np
import pytest

from replay.graph.types import Graph, OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.types import Labels, Phase, Role
from replay.trace import CollectiveKind, Group
from replay.whatif._optimizer_changes import expert_share, share_by_model
from tests.synthetic import Comm, Op, graph_of

LAYOUT = Layout(dp=4, ep=2, world_size=4)
DENSE, EXPERT = Group("dense", ranks=(0, 1, 2, 3), size=4), Group("expert", ranks=(0, 2), size=2)


def gradients(kind: CollectiveKind) -> Graph:
    """Rank 0 sums 400 bytes of dense gradients and 600 of expert ones, then updates."""
    comms = [Comm(kind, 0, 400, 0, 4), Comm(kind, 1, 600, 1, 2)]
    ops = [
        Op("sum", 5, kind=OpKind.TRANSFER, comm=0),
        Op("sum", 5, kind=OpKind.TRANSFER, comm=1),
        Op("adam", 10),
    ]
    return graph_of(ops, comms=comms, groups=[DENSE, EXPERT])


def labels(graph: Graph, model: ModelSpec = ModelSpec()) -> Labels:  # noqa: B008 - frozen
    """Two sums and an optimizer kernel; the model's single layer is layer 0."""
    phase = np.array([Phase.SYNC, Phase.SYNC, Phase.OPTIMIZER], np.int8)
    layer = np.array([0, -1, -1], np.int32)
    unknown = np.full(len(graph), -1, np.int32)
    role = np.full(len(graph), Role.NONE, np.int8)
    return Labels(phase, role, unknown, unknown.copy(), layer, unknown.copy(), LAYOUT, model, ())


def test_share_is_read_off_the_gradients() -> None:
    """600 of 1000 bytes belong to experts."""
    graph = gradients(CollectiveKind.ALL_REDUCE)
    assert expert_share(graph, labels(graph)) == pytest.approx(0.6)


def test_a_sharded_optimizer_does_not_depend_on_ep() -> None:
    """Reduce-scattered gradients: every rank updates its part of all parameters, so nothing scales."""
    graph = gradients(CollectiveKind.REDUCE_SCATTER)
    assert expert_share(graph, labels(graph)) == pytest.approx(0)


def test_share_by_the_models_sizes() -> None:
    """One layer: 3 h f E / ep = 3 x 10 x 5 x 4 / 2 = 300 of experts; 4 h^2 = 400 and h E = 40 (router) beside."""
    graph = gradients(CollectiveKind.ALL_REDUCE)
    model = ModelSpec(layers=1, hidden=10, moe_ffn=5, experts=4)
    assert share_by_model(graph, labels(graph, model)) == pytest.approx(300 / 740)


def test_share_that_nothing_tells() -> None:
    """Without sizes the share is not known, and not zero."""
    graph = gradients(CollectiveKind.ALL_REDUCE)
    assert np.isnan(share_by_model(graph, labels(graph))).all()
