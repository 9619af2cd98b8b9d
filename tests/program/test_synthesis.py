"""Synthesis against hand arithmetic: one layer costs 10 ns forward and 20 ns backward unless said."""

from dataclasses import replace

import numpy as np
import pytest

from replay.core.errors import LayoutError, RefusedError
from replay.graph.types import OpKind, Rule
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.absent import with_absent
from replay.program.assumed_link import of_device
from replay.program.comm_ops import P2P_KINDS
from replay.program.links import Curve, Links
from replay.program.synthesis import Timing, synthesise
from replay.program.templates import Program, lift
from replay.program.types import Phase, Role
from replay.simulate.engine import simulate
from replay.trace import CollectiveKind
from tests.program.recorded import Costs, pipeline_step


def layout(**sizes: object) -> Layout:
    """Two stages, two micro-batches."""
    base = {"pp": 2, "world_size": 2, "mbs": 1, "gbs": 2, "microbatches": 2, "schedule": "1f1b", "group_size": 2}
    return Layout(**{**base, **sizes})  # type: ignore[arg-type]


def program(layers: int | tuple[int, ...] = 4, costs: Costs | None = None, **sizes: object) -> Program:
    """A lifted 1F1B step."""
    return lift(*pipeline_step(layout(**sizes), layers, costs or Costs(5, 10)))


def step_of(lifted: Program, target: Layout) -> int:
    """Simulated step of a target."""
    return simulate(synthesise(lifted, target).graph).step_ns


def test_the_recording_is_what_hand_arithmetic_says() -> None:
    """F 10 and B 20 a stage: (m + p - 1)(F + B) = 90, and three transfers of 1 ns lie on the path."""
    graph, _ = pipeline_step(layout(), 4, Costs(5, 10, transfer=1))
    assert graph.measured_step_ns == 93


@pytest.mark.parametrize(
    ("layers", "sizes"),
    [
        (4, {}),
        (4, {"gbs": 6, "microbatches": 6}),
        (8, {"vpp": 2, "schedule": "interleaved", "gbs": 4, "microbatches": 4}),
        (8, {"pp": 4, "world_size": 4, "group_size": 4, "gbs": 8, "microbatches": 8}),
        (8, {"pp": 4, "vpp": 2, "world_size": 4, "group_size": 4, "gbs": 8, "microbatches": 8,
             "schedule": "interleaved"}),
        (3, {"pp": 1, "world_size": 1, "group_size": 1}),
        (4, {"tp": 2, "dp": 2, "ep": 2, "world_size": 8, "gbs": 8, "microbatches": 4}),
        (4, {"dp": 4, "ep": 4, "world_size": 8, "gbs": 16, "microbatches": 4}),
        ((3, 1), {"gbs": 6, "microbatches": 6}),
        (2, {"dp": 10, "world_size": 20, "gbs": 20}),
    ],
)  # fmt: skip
def test_source_layout_comes_back_exactly(layers: int | tuple[int, ...], sizes: dict[str, object]) -> None:
    """Equal instances: templates, recomputed waits and the order from (p, m, v, G) give the measured step."""
    costs = Costs(7, 13, embedding=3, head=11, transfer=2, gradients=5, optimizer=4, launch=1)
    lifted = program(layers, costs, **sizes)
    assert step_of(lifted, lifted.layout) == lifted.graph.measured_step_ns


@pytest.mark.parametrize("launch", [0, 1, 30])
def test_backward_from_a_thread_of_its_own(launch: int) -> None:
    """The autograd engine launches backwards while the main thread waits; also where launches pace the device."""
    lifted = program(4, Costs(5, 10, transfer=2, launch=launch, autograd=True), gbs=4, microbatches=4)
    assert step_of(lifted, lifted.layout) == lifted.graph.measured_step_ns


def test_chunks_may_be_asked_for_by_their_layers() -> None:
    """Stages of 3 and 1 layers, from 2 and 2: as a step that was recorded so."""
    lifted = program()
    uneven = synthesise(lifted, lifted.layout, chunk_layers=(3, 1)).graph
    assert simulate(uneven).step_ns == program((3, 1)).graph.measured_step_ns
    with pytest.raises(LayoutError, match="2 chunks of 5 layers in all, but pp 2 x vpp 1 = 2 chunks share 4 layers"):
        synthesise(lifted, lifted.layout, chunk_layers=(3, 2))


def test_uneven_chunks_may_become_even() -> None:
    """Stages of 3 and 1 layers, v 2: m(F + B) + (p - 1)(F + B) / v = 4 x 30 + 15, as from even stages."""
    lifted = program((3, 1), gbs=4, microbatches=4)
    assert step_of(lifted, lifted.layout.change(vpp=2)) == 4 * 30 + 15


def test_transfers_need_no_range_of_their_own() -> None:
    """A send belongs to the pass before it, a receive to the pass after it."""
    graph, labels = pipeline_step(layout(gbs=4, microbatches=4), 4, Costs(5, 10, transfer=2))
    bare = labels.role == Role.P2P
    unlabelled = replace(
        labels,
        **{name: np.where(bare, 0, getattr(labels, name)).astype(np.int8) for name in ("phase", "role")},
        **{name: np.where(bare, -1, getattr(labels, name)).astype(np.int32) for name in ("microbatch", "chunk")},
    )
    assert step_of(lift(graph, unlabelled), labels.layout) == graph.measured_step_ns


def test_large_collectives_meet_in_one_op() -> None:
    """Ten members: ten edges in and ten out instead of a hundred."""
    lifted = program(2, pp=1, dp=10, world_size=10, group_size=1, gbs=10, microbatches=1)
    graph = synthesise(lifted, lifted.layout).graph
    assert (graph.kind == OpKind.MARK).sum() == 1
    assert (graph.edges.rule == Rule.COLLECTIVE).sum() == 20


def test_two_chunks_halve_the_bubble() -> None:
    """The bubble (p - 1)(F + B) = 30 becomes (p - 1)(F + B) / v = 15 when transfers are free."""
    lifted = program()
    assert step_of(lifted, lifted.layout) == 90
    assert step_of(lifted, lifted.layout.change(vpp=2)) == 75


def test_one_chunk_from_two_brings_the_bubble_back() -> None:
    """The other way round: 75 becomes 90."""
    lifted = program(vpp=2, schedule="interleaved")
    assert lifted.graph.measured_step_ns == 75
    assert step_of(lifted, lifted.layout.change(vpp=1)) == 90


def test_twice_the_batch() -> None:
    """m 2 to 4: (4 + 1)(F + B) = 150."""
    lifted = program()
    assert step_of(lifted, lifted.layout.change(gbs=4)) == 150


def test_gpipe_costs_the_same_bubble() -> None:
    """GPipe with m = 2: (m + p - 1)(F + B) = 90."""
    lifted = program()
    assert step_of(lifted, lifted.layout.change(schedule="gpipe")) == 90


def test_twice_the_stages() -> None:
    """Four stages of one layer: F 5 and B 10, (m + p - 1)(F + B) = 5 x 15 = 75."""
    lifted = program()
    assert step_of(lifted, lifted.layout.change(pp=4, world_size=4)) == 75


def test_head_stays_on_the_last_chunk() -> None:
    """A head of 8 ns each way delays only the last stage: pp 1 has F + B = 30 + 2 x 8 a micro-batch."""
    lifted = program(costs=Costs(5, 10, head=8))
    assert step_of(lifted, lifted.layout.change(pp=1, world_size=1)) == 2 * (4 * 15 + 2 * 8)


def test_waits_are_recomputed_for_new_groups() -> None:
    """The slow rank of a data group decides when gradients are summed: its 4 forward layers cost 1 ns more each."""
    sizes = {"pp": 1, "dp": 2, "world_size": 2, "group_size": 1, "gbs": 4}
    lifted = lift(*pipeline_step(layout(**sizes), 4, Costs(5, 10, gradients=3), slow={1: 1}))
    synthesis = synthesise(lifted, lifted.layout.change(gbs=8))
    assert simulate(synthesis.graph).step_ns == 4 * (4 * 6 + 4 * 10) + 3
    assert [group.ranks for group in synthesis.graph.groups if group.ranks] == [(0, 1)]


def test_slow_rank_meets_other_ranks_under_another_ep() -> None:
    """Exchanges of ep 2 tie rank 2 (slow by 1 ns a layer) to rank 3 only; those of ep 4 tie it to all four."""
    sizes = {"pp": 1, "dp": 4, "ep": 2, "world_size": 4, "group_size": 1, "gbs": 8, "microbatches": 2}
    lifted = lift(*pipeline_step(layout(**sizes), 4, Costs(5, 10), slow={2: 1}))
    slow, fast = 2 * 4 * 16, 2 * 4 * 15
    assert backward_ends(lifted, lifted.layout) == [fast, fast, slow, slow]
    assert backward_ends(lifted, lifted.layout.change(ep=4)) == [slow] * 4


def backward_ends(lifted: Program, target: Layout) -> list[int]:
    """When the last backward kernel of every rank ends."""
    graph = synthesise(lifted, target).graph
    end, backward = simulate(graph).end_ns, graph.name == graph.names.index("MLP BACKWARD")
    return [int(end[backward & (graph.rank == rank)].max()) for rank in range(target.world_size)]


def test_gradients_split_with_the_layers_of_a_chunk() -> None:
    """One sum of 8 ns for 2 layers becomes two of 4 ns for 1 layer each: 75 + 8 after the passes."""
    lifted = program(costs=Costs(5, 10, gradients=8))
    graph = synthesise(lifted, lifted.layout.change(vpp=2)).graph
    assert simulate(graph).step_ns == 75 + 8
    sums = graph.comms.kind == CollectiveKind.ALL_REDUCE
    assert graph.comms.nbytes[sums].tolist() == [1 << 25] * 4  # 1 << 26 bytes each before


def test_gradients_follow_layers_and_ring() -> None:
    """pp 2 x dp 2 to dp 4: twice the layers a rank, and (3/4) / (1/2) of the buffer sent: 8 x 2 x 1.5 = 24 ns."""
    lifted = program(costs=Costs(5, 10, gradients=8), dp=2, world_size=4, gbs=8, microbatches=4)
    assert step_of(lifted, lifted.layout.change(pp=1)) == 2 * 4 * 15 + 24


def test_optimizer_follows_the_layers_of_a_rank() -> None:
    """Four chunks on four ranks or on two: the optimizer of 6 ns for one layer takes 12 ns for two."""
    lifted = program(costs=Costs(5, 10, optimizer=6), pp=4, world_size=4, group_size=4)
    step = step_of(lifted, lifted.layout.change(pp=2, vpp=2, world_size=2, group_size=2))
    assert step == 75 + 12


def test_transfers_of_a_first_pipeline() -> None:
    """2^26 bytes of gradients on a ring of 2: messages of 2^25 in 4 ns; activations of 2^24 take 2 ns; 150 + 5 x 2."""
    sizes = {"pp": 1, "dp": 2, "world_size": 2, "group_size": 1, "gbs": 4, "seq": 1 << 22}
    graph, labels = pipeline_step(layout(**sizes), 4, Costs(5, 10, gradients=8))
    target = labels.layout.change(pp=2)
    *known, notes = with_absent(graph, replace(labels, model=ModelSpec(layers=4, hidden=2)), target)
    assert step_of(lift(*known), target) == (4 + 1) * 30 + 5 * 2
    assert any("no pipeline transfers" in note for note in notes)


def test_tensor_parallel_is_refused() -> None:
    """Another tp changes every GEMM."""
    with pytest.raises(RefusedError, match="tp 1 to 2: what-ifs that change tp are not modelled"):
        synthesise(program(), layout(tp=2, world_size=4))


def test_chunks_must_divide_the_layers() -> None:
    """The message names the sizes and those that would fit."""
    lifted = program()
    with pytest.raises(LayoutError, match=r"4 layers do not divide into pp 2 x vpp 3 = 6 .* vpp may be 1, 2"):
        synthesise(lifted, lifted.layout.change(vpp=3, gbs=4))


def test_a_pipeline_cannot_be_learned_from_one_stage() -> None:
    """pp 1 to 2 needs the cost of a transfer that was never made."""
    lifted = program(pp=1, world_size=1, group_size=1)
    with pytest.raises(RefusedError, match="no forward send between pipeline stages"):
        synthesise(lifted, layout())


def test_one_rank_a_stage_stands_for_its_data_group() -> None:
    """Two of four ranks: the other two behave alike, so the source comes back and only two ranks are simulated."""
    sizes = {"dp": 2, "world_size": 4, "gbs": 8, "microbatches": 4}
    graph, labels = pipeline_step(layout(**sizes), 4, Costs(5, 10, gradients=3), only=(0, 2))
    laid_out = synthesise(lift(graph, labels), labels.layout)
    assert simulate(laid_out.graph).step_ns == graph.measured_step_ns == 5 * 30 + 3
    assert laid_out.notes == ("2 of 4 ranks are simulated; the others behave like them",)


def test_a_stage_nobody_recorded_is_refused() -> None:
    """Ranks 0 and 1 are stage 0: what head and loss cost is not known."""
    graph, labels = pipeline_step(layout(dp=2, world_size=4, gbs=4), 4, Costs(5, 10), only=(0, 1))
    with pytest.raises(RefusedError, match=r"no rank of pipeline stage 1 \(of 2\) is in the input"):
        synthesise(lift(graph, labels), labels.layout)


def test_durations_may_be_retimed() -> None:
    """All device work twice as long: (m + p - 1)(F + B) = 180."""
    lifted = program()
    timing = replace(Timing.measured(lifted.graph), duration_ns=2 * lifted.graph.duration_ns)
    assert simulate(synthesise(lifted, lifted.layout, timing).graph).step_ns == 180


def test_position_classes_are_kept_apart() -> None:
    """Only the first micro-batch carries a weight cast of 6 ns a stage; with m = 4 there is still one, not two."""
    graph, labels = pipeline_step(layout(), 4, Costs(5, 10))
    first = (labels.phase == Phase.FORWARD) & (labels.microbatch == 0) & (graph.kind == OpKind.COMPUTE)
    slower = graph.with_durations(graph.duration_ns + 3 * (first & (labels.layer >= 0)))
    lifted = lift(slower, labels)
    assert step_of(lifted, lifted.layout.change(gbs=4)) == 150 + 2 * 6


def test_expert_gradients_appear_with_a_smaller_ep() -> None:
    """ep 2 to 1 on dp 2: dense 4 h^2 + h E = 440 parameters a layer, experts 3 h f E = 1320, so 8 ns x 3 more."""
    source = layout(pp=1, dp=2, ep=2, world_size=2, group_size=1, gbs=4)
    graph, labels = pipeline_step(source, 4, Costs(5, 10, gradients=8))
    labels = replace(labels, model=ModelSpec(layers=4, hidden=10, moe_ffn=11, experts=4))
    target = source.change(ep=1)
    *known, _ = with_absent(graph, labels, target)
    assert step_of(lift(*known), target) == graph.measured_step_ns + 24


def test_expert_gradients_of_unknown_size_are_refused() -> None:
    """dp 2 to 4 with ep 2: each expert gets a second replica, and no model tells its parameters."""
    source = layout(pp=1, dp=2, ep=2, world_size=2, group_size=1, gbs=4)
    graph, labels = pipeline_step(source, 4, Costs(5, 10, gradients=8))
    target = source.change(dp=4, world_size=4, gbs=8)
    with pytest.raises(RefusedError, match=r"over 2 replicas.* give --model"):
        with_absent(graph, labels, target)


@pytest.mark.parametrize(("links", "assumed"), [(Links(), True), (Links({True: Curve.through({1e6: [1e3]})}), False)])
def test_a_link_is_assumed_only_where_no_other_is_known(links: Links, *, assumed: bool) -> None:
    """The sum of gradients that dp 2 brings, inside a node: nothing is known of links, or those between nodes are."""
    source = layout(pp=1, world_size=1, group_size=1)
    graph, labels = pipeline_step(source, 4, Costs(5, 10))
    labels = replace(labels, model=ModelSpec(layers=4, hidden=10))
    target = source.change(dp=2)
    *known, _ = with_absent(graph, labels, target)
    lifted = lift(*known)
    laid_out = synthesise(lifted, target, replace(Timing.measured(lifted.graph), links=links))
    assert (of_device().note in laid_out.notes) == assumed


def test_without_labels_there_is_nothing_to_lift() -> None:
    """The refusal says which ranges to record."""
    graph, labels = pipeline_step(layout(), 4, Costs(5, 10))
    unknown = replace(labels, phase=np.zeros(len(graph), np.int8))
    with pytest.raises(RefusedError, match="forward microbatch=0 chunk=0"):
        lift(graph, unknown)


def test_fused_exchanges_are_refused_by_name() -> None:
    """One kernel for both directions does not tell what a single transfer costs."""
    graph, labels = pipeline_step(layout(), 4, Costs(5, 10))
    kind = np.where(np.isin(graph.comms.kind, P2P_KINDS), CollectiveKind.SEND_RECV, graph.comms.kind).astype(np.int8)
    fused = replace(graph, comms=replace(graph.comms, kind=kind))
    with pytest.raises(RefusedError, match="fused send/receive kernels"):
        synthesise(lift(fused, labels), labels.layout)


def test_twice_the_replicas_halve_the_microbatches() -> None:
    """dp 2 to 4 at gbs 4, m 2 to 1: 2 (F + B) + sum = 60 + 40 becomes 30 + 40 (3/4) / (1/2)."""
    lifted = program(2, Costs(5, 10, gradients=40), pp=1, dp=2, world_size=2, group_size=1, gbs=4, microbatches=2)
    assert step_of(lifted, lifted.layout) == 100
    assert step_of(lifted, lifted.layout.change(dp=4)) == 30 + 60


def test_a_batch_that_cannot_be_laid_out_is_refused() -> None:
    """Before memory runs out."""
    lifted = program()
    with pytest.raises(RefusedError, match="100000000 micro-batches"):
        synthesise(lifted, replace(lifted.layout, microbatches=100_000_000, gbs=None))
