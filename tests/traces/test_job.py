"""Jobs, groups and device work of the recorder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from traces.record import groups
from traces.record.disturbance import Disturbance
from traces.record.durations import Durations
from traces.record.job import Job, Model
from traces.record.kernels import Kernels
from traces.record.loads import Load
from traces.record.model import EMBEDDING, HEAD, DeviceWork
from traces.record.ops import Collective, Kernel, Module, Op, Operator

PHASES = ("forward", "backward")
JOB = Job("job", pp=2, dp=4, ep=2, gbs=16, model=Model(layers=8, experts=8))


def test_groups_follow_megatrons_rank_order() -> None:
    """tp-cp-ep-dp-pp with two stages of four ranks and ep 2."""
    made = groups.members(JOB)
    assert made[groups.PIPELINE] == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert made[groups.DATA] == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert made[groups.EXPERT] == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert made[groups.EXPERT_DATA] == ((0, 2), (1, 3), (4, 6), (5, 7))
    assert made[groups.EXPERT_NORM] == ((0, 1, 4, 5), (2, 3, 6, 7))


def test_chunks_take_layers_in_turn() -> None:
    """Virtual stage chunk x pp + stage: with two chunks the first stage holds layers 0-1 and 4-5."""
    job = Job("job", vpp=2)
    assert [list(job.chunk_layers(0, c)) for c in (0, 1)] == [[0, 1], [4, 5]]
    assert [list(job.chunk_layers(1, c)) for c in (0, 1)] == [[2, 3], [6, 7]]


def test_sizes_that_do_not_divide_are_refused() -> None:
    """The message names both numbers."""
    with pytest.raises(ValueError, match=r"experts \(16\) must divide by ep \(3\)"):
        Job("job", dp=3, ep=3, gbs=63)


def ops(modules: tuple[Module, ...]) -> list[Op]:
    """All device work of modules, in order."""
    return [op for _, operators in modules for operator in operators for op in operator.ops]


def test_doubling_ep_doubles_the_rows_of_half_the_experts() -> None:
    """4096 tokens x 2 over 16 experts: 512 rows of each rank; of 4 ranks for 4 experts, of 8 for 2: 8192 in all."""
    dims = {}
    for ep in (4, 8):
        layer = ops(DeviceWork(Job("job", ep=ep), Durations()).layer("forward", 0))
        dims[ep] = next(op.dims for op in layer if isinstance(op, Kernel) and op.name == "grouped_gemm_fc1")
    assert dims == {4: ((8192, 4096), (4, 4096, 4096)), 8: ((8192, 4096), (2, 4096, 4096))}


@pytest.mark.parametrize("job", [JOB, replace(JOB, tp=2, dp=2, gbs=8), replace(JOB, model=Model(dense_layers=8))])
def test_backward_mirrors_forward(job: Job) -> None:
    """Each operator of the forward has one in backward, in reverse, and each GEMM two."""
    work = DeviceWork(job, Durations())
    forward, backward = work.layer("forward", 0), work.layer("backward", 0)
    names = [[operator.name for _, operators in modules for operator in operators] for modules in (forward, backward)]
    assert names[0] == names[1][::-1]
    gemms = [[op for op in ops(modules) if isinstance(op, Kernel) and op.op] for modules in (forward, backward)]
    assert 2 * len(gemms[0]) == len(gemms[1]) == 8


def test_a_layer_of_experts_exchanges_twice() -> None:
    """Dispatch and combine."""
    kinds = [
        op.collective for op in ops(DeviceWork(JOB, Durations()).layer("forward", 0)) if isinstance(op, Collective)
    ]
    assert kinds == ["all_to_allv", "all_to_allv"]


def test_tensor_ranks_gather_and_scatter_around_attention_and_mlp() -> None:
    """Dense layer, forward: gather, scatter, gather, scatter; backward gathers twice for each pair of GEMMs."""
    work = DeviceWork(replace(JOB, tp=2, dp=2, ep=1, gbs=8, model=Model(dense_layers=8)), Durations())
    kinds = {"_allgather_base": "g", "_reduce_scatter_base": "s"}
    got = [[kinds[op.collective] for op in ops(work.layer(p, 0)) if isinstance(op, Collective)] for p in PHASES]
    assert ["".join(kind) for kind in got] == ["gsgs", "ggsggs"]


def test_nothing_is_exchanged_where_all_experts_are_local() -> None:
    """ep 1: no dispatch, no combine."""
    layer = DeviceWork(Job("job", ep=1), Durations()).layer("forward", 0)
    assert dict(layer)["dispatch"] == ()
    assert all(isinstance(op, Kernel) for op in ops(layer))


def test_expert_gradients_stay_where_they_are_unique() -> None:
    """With ep = dp every expert lives once, so only dense gradients are summed."""
    assert [op.group for op in DeviceWork(Job("job", ep=8), Durations()).grad_sync(0, 0)] == [groups.DATA]


def test_buckets_hold_all_gradients_and_fill_from_the_end() -> None:
    """Head 131 M and each layer's 67 M parameters exceed 40 M: one bucket each; expert sums go layer by layer."""
    work = DeviceWork(JOB, Durations())
    last, first = work.buckets(1, 0), work.buckets(0, 0)
    assert list(last) == [HEAD, 7, 6, 5, 4]
    assert list(first) == [3, 2, 1, 0, EMBEDDING]
    summed = sum(op.elements_in for ready in last.values() for op in ready)
    assert summed == sum(op.elements_in for op in work.grad_sync(1, 0))


def test_skewed_rows_differ_by_rank_and_keep_their_sum() -> None:
    """Half of 8192 rows x 2 members to expert 0: the first member receives 8192 + 1/7 of the other half for 3 more."""
    load = Load("half", ((7.0 / 14, *(1.0 / 14,) * 7),))
    works = [DeviceWork(replace(JOB, load=load), Durations(), rank) for rank in (0, 1)]
    sent = [next(op for op in ops(w.layer("forward", 0)) if isinstance(op, Collective)) for w in works]
    assert sent[0].sent == sent[1].sent
    assert [s.elements_out for s in sent] == [2 * s for s in sent[0].sent]
    assert sum(sent[0].sent) == sent[0].elements_in == 4096 * 2 * 4096
    assert sent[0].duration_ns == sent[1].duration_ns


def test_the_last_stage_may_hold_fewer_layers() -> None:
    """Seven layers over four stages with one on the last: two on each of the others."""
    job = Job("job", pp=4, dp=1, ep=1, gbs=8, model=Model(layers=7), last_stage_layers=1)
    assert [list(job.chunk_layers(stage, 0)) for stage in range(4)] == [[0, 1], [2, 3], [4, 5], [6]]


def test_tensor_ranks_are_neighbours() -> None:
    """Order tp-dp-pp: rank = (stage x dp + data rank) x tp + tensor rank; expert groups take neighbours."""
    made = groups.members(Job("job", pp=2, dp=2, ep=2, gbs=8, tp=2))
    assert made[groups.TENSOR][:2] == ((0, 1), (2, 3))
    assert made[groups.DATA][:2] == ((0, 2), (1, 3))
    assert made[groups.PIPELINE][0] == (0, 4)
    assert made[groups.EXPERT_DATA][0] == (0, 2)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"vpp": 2, "overlap_p2p": False}, "two stages needs overlapped"),
        ({"overlap_p2p": True}, "1f1b has no overlapped"),
        ({"vpp": 2, "schedule": "gpipe"}, "gpipe does not go with vpp 2"),
    ],
)
def test_what_megatron_does_not_allow_is_refused(sizes: dict[str, Any], words: str) -> None:
    """Overlap belongs to interleaving, which needs it over two stages."""
    with pytest.raises(ValueError, match=words):
        Job("job", **sizes)


def test_a_disturbance_changes_only_what_it_names() -> None:
    """A kernel twice as long on every rank, all kernels of one rank 1.5 times."""
    job = replace(JOB, disturbance=Disturbance(kernel="a", kernel_factor=2.0, slow_rank=1, slow_factor=1.5))
    times = [[Kernels(job, Durations(), rank).kernel(name, 100).duration_ns for name in "ab"] for rank in (0, 1)]
    assert times == [[200, 100], [300, 150]]


def test_backward_nodes_are_named_as_autograd_names_them() -> None:
    """ATen operators by their derivative's number, autograd functions by their class."""
    names = [Operator(name, ()).backward_name for name in ("aten::embedding", "_Linear")]
    assert names == ["EmbeddingBackward0", "_LinearBackward"]
