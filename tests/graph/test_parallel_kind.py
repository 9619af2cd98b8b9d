"""Kinds of parallelism from group names and collective kinds."""

from __future__ import annotations

import pytest

from replay.graph.parallel_kind import ParallelKind, kind_of_group, parallel_kinds
from replay.trace import CollectiveKind, Group
from tests.synthetic import Comm, Op, graph_of


@pytest.mark.parametrize(
    ("description", "kind"),
    [  # Megatron-LM core/parallel_state.py, group_desc
        ("TENSOR_MODEL_PARALLEL_GROUP", ParallelKind.TP),
        ("TENSOR_AND_CONTEXT_PARALLEL_GROUP", ParallelKind.TP),
        ("EXPERT_TENSOR_PARALLEL_GROUP", ParallelKind.TP),
        ("CONTEXT_PARALLEL_GROUP", ParallelKind.CP),
        ("EXPERT_MODEL_PARALLEL_GROUP", ParallelKind.EP),
        ("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", ParallelKind.EP),
        ("DATA_PARALLEL_GROUP_WITH_CP", ParallelKind.DP),
        ("EXPERT_DATA_PARALLEL_GROUP", ParallelKind.DP),
        ("INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", ParallelKind.DP),
        ("PIPELINE_MODEL_PARALLEL_GROUP", ParallelKind.PP),
        ("EMBEDDING_GROUP", ParallelKind.PP),
        ("MODEL_PARALLEL_GROUP", ParallelKind.OTHER),
        ("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", ParallelKind.OTHER),
        ("mesh_tp", ParallelKind.TP),  # DTensor
        ("mesh_dp_shard", ParallelKind.DP),
        ("dp_cp", ParallelKind.DP),  # MindSpeed: Megatron's names for communicator options
        ("exp", ParallelKind.EP),
        ("tp_exp", ParallelKind.EP),
        ("dp_modulo_exp", ParallelKind.DP),
        ("ep_dp", ParallelKind.DP),
        ("ep_tp", ParallelKind.TP),
        ("tp_ep_pp", ParallelKind.OTHER),
        ("mp", ParallelKind.OTHER),
        ("embd", ParallelKind.PP),
        ("default_group", None),
        ("default_pg", None),
        ("undefined", None),
        ("", None),
    ],
)
def test_group_names(description: str, kind: ParallelKind | None) -> None:
    assert kind_of_group(Group("0", description)) is kind


def test_the_group_comes_before_the_collective() -> None:
    groups = [Group("5", "CONTEXT_PARALLEL_GROUP"), Group("0", "default_pg")]
    kinds = [(CollectiveKind.SEND_RECV, 0), (CollectiveKind.SEND_RECV, 1), (CollectiveKind.DISPATCH, -1),
             (CollectiveKind.ALL_REDUCE, 1)]  # fmt: skip
    graph = graph_of([Op("a", 1)], comms=[Comm(kind, group) for kind, group in kinds], groups=groups)
    assert parallel_kinds(graph).tolist() == [ParallelKind.CP, ParallelKind.PP, ParallelKind.EP, ParallelKind.OTHER]
