"""Expert parallelism re-timed on small hand-made steps; expected factors by hand arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hwprofiles import HardwareProfile, Parameter
from hwprofiles.fitted import Fitted
from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.graph.types import CommTable, Graph, OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.program.loads import Loads
from replay.program.retiming import RetimeContext, Retiming
from replay.trace import CollectiveKind, EventKind, Group
from replay.whatif.ep import retime
from tests.program.events import HOST, Row, graph_of, launched, span, trace_of

MODEL = ModelSpec(layers=1, hidden=64, moe_ffn=32, experts=16, topk=2)
LAYOUT = Layout(ep=4, dp=16, world_size=16, seq=1024, mbs=1)


@dataclass(frozen=True)
class Exchange:
    """A communication kernel: its kind, bytes and group."""

    kind: CollectiveKind
    nbytes: int = -1
    group: int = -1


def step(
    kernels: list[tuple[str, str, int, Exchange | None]], groups: tuple[Group, ...] = ()
) -> tuple[Graph, list[Row]]:
    """One op per (range, kernel name, duration, exchange), each in a range of its own."""
    rows: list[Row] = []
    for i, (where, name, duration, _) in enumerate(kernels):
        rows += [span(where, HOST, 1000 * i, 1000 * i + 999)]
        rows += launched(name, HOST, 1000 * i + 1, 1000 * i + 2, duration, i + 1)
    members = [exchange for *_, exchange in kernels if exchange]
    n = len(members)
    minus = np.full(n, -1, np.int64)
    comms = CommTable(
        np.array([m.kind for m in members], np.int8),
        np.array([m.group for m in members], np.int32),
        np.array([m.nbytes for m in members], np.int64),
        np.arange(n, dtype=np.int64),
        np.array([len(groups[m.group].ranks) if m.group >= 0 else -1 for m in members], np.int32),
        np.array([len(groups[m.group].ranks) if m.group >= 0 else 1 for m in members], np.int32),
        minus,
        minus,
    )
    index = iter(range(n))
    comm = [next(index) if exchange else -1 for *_, exchange in kernels]
    graph = graph_of(trace_of(rows), comms, comm)
    kind = np.where(graph.comm >= 0, OpKind.TRANSFER, OpKind.COMPUTE).astype(np.int8)
    return replace(graph, kind=kind, groups=groups), rows


def retimed(
    graph: Graph, rows: list[Row], *, ep: int, source: Layout = LAYOUT, model: ModelSpec = MODEL,
    profile: HardwareProfile | None = None, loads: Loads | None = None,
) -> Retiming:  # fmt: skip
    trace = trace_of(rows)
    labels = label(graph, trace, source, model)
    return retime(graph, labels, source, source.change(ep=ep), RetimeContext(trace, model, profile, loads))


def profile(**values: float) -> HardwareProfile:
    rows = {name: Parameter(value, "", Grade.DATASHEET, "test") for name, value in values.items()}
    return HardwareProfile("test", "test", (), rows)


EP_GROUP = (Group("ep", "EXPERT_MODEL_PARALLEL_GROUP", (0, 1, 2, 3)),)
ALL_TO_ALL = Exchange(CollectiveKind.ALL_TO_ALL, 1 << 20, 0)


def test_nothing_changes_when_ep_stays() -> None:
    graph, rows = step([("experts", "grouped_gemm", 100, None)])
    result = retimed(graph, rows, ep=4)
    assert result.factor.tolist() == [1.0]
    assert result.apply(graph).duration_ns.tolist() == [100]


def test_attention_is_not_touched() -> None:
    graph, rows = step([("attn(F)", "flash_attention", 500, None), ("experts", "grouped_gemm", 100, None)])
    result = retimed(graph, rows, ep=8)
    assert (result.factor[0], result.reason[0]) == (1.0, -1)


def test_a_flat_all_to_all_moves_what_leaves_the_rank() -> None:
    """1 - 1/ep of the buffer: (7/8) / (3/4) = 7/6."""
    graph, rows = step([("dispatch", "ncclDevKernel_SendRecv", 600, ALL_TO_ALL)], EP_GROUP)
    result = retimed(graph, rows, ep=8)
    assert result.factor[0] == pytest.approx(7 / 6)
    assert result.apply(graph).duration_ns.tolist() == [700]
    assert result.grade[0] == Grade.EXTRAPOLATED


def test_small_transfers_say_nothing_of_large_ones() -> None:
    """Most of 60 ns for 8 bytes is coming together: 600 ns for 3 messages of 256 KiB, 700 for 7 of 128 KiB."""
    small = Exchange(CollectiveKind.ALL_REDUCE, 8, 0)
    kernels = [("dispatch", "SendRecv", 600, ALL_TO_ALL), ("optimizer", "AllReduce", 60, small)]
    graph, rows = step(kernels, EP_GROUP)
    assert retimed(graph, rows, ep=8).apply(graph).duration_ns.tolist() == [700, 60]


def test_a_flat_exchange_that_starts_to_leave_the_node_takes_the_links_word() -> None:
    """2 devices a node, ep 2 to 4: half of 1 MiB crosses 1 GB/s, whatever was measured inside."""
    slow = profile(intra_node_bytes_per_s=100e9, inter_node_bytes_per_s=1e9, devices_per_node=2)
    pair = (Group("ep", "EXPERT_MODEL_PARALLEL_GROUP", (0, 1)),)
    graph, rows = step([("dispatch", "SendRecv", 600, ALL_TO_ALL)], pair)
    result = retimed(graph, rows, ep=4, source=replace(LAYOUT, ep=2), profile=slow)
    assert result.apply(graph).duration_ns.tolist() == [(1 << 20) // 2]
    assert result.grade[0] == Grade.DATASHEET


def test_no_exchange_at_ep_1() -> None:
    graph, rows = step([("dispatch", "SendRecv", 600, ALL_TO_ALL), ("experts", "grouped_gemm", 100, None)], EP_GROUP)
    assert retimed(graph, rows, ep=1).apply(graph).duration_ns.tolist() == [0, 100]


def test_an_all_gather_dispatcher_sends_to_every_rank() -> None:
    """Bytes follow ep - 1: 7 / 3."""
    gather = Exchange(CollectiveKind.ALL_GATHER, 1 << 20, 0)
    graph, rows = step([("dispatch", "ncclDevKernel_AllGather", 300, gather)], EP_GROUP)
    assert retimed(graph, rows, ep=8).apply(graph).duration_ns.tolist() == [700]


def test_expert_rows_before_and_after() -> None:
    """1024 tokens · top-2 · ep / 16 experts: 512 rows for each of 4 experts, then 1024 for each of 2."""
    graph, rows = step([("experts", "grouped_gemm", 100, None)])
    (change,) = retimed(graph, rows, ep=8).changes
    assert (change.before["experts_per_rank"], change.before["rows_per_expert"]) == (4, 512)
    assert (change.after["experts_per_rank"], change.after["rows_per_expert"]) == (2, 1024)


def test_memory_bound_experts_follow_their_weights() -> None:
    """Infinite arithmetic, rows without weight against 4 or 2 experts' weights: traffic decides.

    Per expert and matrix, BF16: 2·(rows·in + in·out) + 2·rows·out. fc1 (64, 64), fc2 (32, 64).
    """
    graph, rows = step([("experts", "grouped_gemm", 1000, None)])
    fast = profile(bf16_flop_per_s=1e30, hbm_bytes_per_s=1e9)

    def traffic(experts: int, each: int) -> int:
        return sum(experts * 2 * (each * i + i * o + each * o) for i, o in ((64, 64), (32, 64)))

    result = retimed(graph, rows, ep=8, profile=fast)
    assert result.factor[0] == pytest.approx(traffic(2, 1024) / traffic(4, 512), rel=1e-3)
    assert result.grade[0] == Grade.DATASHEET


@pytest.mark.parametrize(("rows", "expected"), [(1024.0, Grade.SCALED), (1000.0, Grade.EXTRAPOLATED)])
def test_a_fitted_device_is_as_good_as_its_range(rows: float, expected: Grade) -> None:
    """512 rows an expert before, 1024 after: inside of a fit of 64 to 1024 rows, outside of one that ends at 1000."""
    names = {"cores": 100.0, "flop_per_s": 1e14, "bytes_per_s": 1e12, "l2_bytes_per_s": 1e13}
    parameters = {name: Parameter(value, "", Grade.FITTED, "test") for name, value in names.items()}
    fit = Fitted("gemm", {"op": "gemm", "dtype": "bf16"}, parameters, calibrated={"m": (64.0, rows)})
    graph, events = step([("experts", "grouped_gemm", 1000, None)])
    result = retimed(graph, events, ep=8, profile=replace(profile(), fitted=(fit,)))
    assert result.grade[0] == expected


def test_gradient_accumulation_scales_with_the_experts() -> None:
    """Weight gradients 300, input gradients 200: a third is accumulation, halved with half the experts: 250."""
    kernels = [("experts(B)", "grouped_dgrad_gemm", 200, None), ("experts(B)", "grouped_wgrad_gemm", 300, None)]
    graph, rows = step(kernels)
    assert retimed(graph, rows, ep=8).apply(graph).duration_ns.tolist() == [200, 250]


@pytest.mark.parametrize(("ep", "expected"), [(8, 230), (2, 320)])
def test_time_per_flop_of_grouped_gemms_is_read_off_the_dense_ones(ep: int, expected: int) -> None:
    """Dense at 1024 rows: 100 ns. Grouped, twice its FLOPs, 512 rows an expert: 130 each; 115 at 1024, 160 at 256."""
    rows = [
        span("attn(F)", HOST, 0, 50),
        Row(EventKind.CPU_OP, "aten::mm", HOST, 0, 40, shape="[[1024,64],[64,64]]"),
        *launched("gemm", HOST, 10, 11, 100, 1),
        span("experts(F)", HOST, 100, 150),
        Row(EventKind.CPU_OP, "grouped_gemm", HOST, 100, 40, shape="[[2048,64],[4,64,64]]"),
        *launched("grouped_gemm", HOST, 110, 111, 260, 2),
    ]
    result = retimed(graph_of(trace_of(rows)), rows, ep=ep)
    assert result.apply(graph_of(trace_of(rows))).duration_ns.tolist() == [100, expected]
    assert result.grade[1] == Grade.FITTED


def test_one_kernel_an_expert_means_half_the_kernels() -> None:
    """Four equal kernels are the four local experts; at ep 8 there are two, of twice the rows."""
    rows = [span("experts", HOST, 0, 100)]
    rows += [row for i in range(4) for row in launched("gemm_bf16", HOST, 10 * i, 10 * i + 1, 100, i + 1)]
    graph = graph_of(trace_of(rows))
    (change,) = (c for c in retimed(graph, rows, ep=8).changes if c.name.startswith("expert GEMMs"))
    assert (change.before["calls"], change.after["calls"]) == (4, 2)


def test_expert_gradients_vanish_with_their_group() -> None:
    """16 ranks: expert-data groups of 4 at ep 4, of 2 at ep 8 (half the bytes · (1/2) / (3/4)), none at ep 16."""
    groups = (Group("edp", "EXPERT_DATA_PARALLEL_GROUP", (0, 4, 8, 12)),)
    sync = Exchange(CollectiveKind.ALL_REDUCE, 1 << 24, 0)
    kernels = [("grad_sync", "AllReduce", 900, sync), ("experts", "grouped_gemm", 100, None)]
    graph, rows = step(kernels, groups)
    assert retimed(graph, rows, ep=8).apply(graph).duration_ns[0] == 300
    assert retimed(graph, rows, ep=16).apply(graph).duration_ns[0] == 0


def test_expert_gradients_follow_the_experts_of_a_rank_where_their_group_stays() -> None:
    """ep 4 to 8 on twice the ranks: groups of 4 as before, 2 experts of 4 each."""
    groups = (Group("edp", "EXPERT_DATA_PARALLEL_GROUP", (0, 4, 8, 12)),)
    sync = Exchange(CollectiveKind.ALL_REDUCE, 1 << 24, 0)
    graph, rows = step([("grad_sync", "AllReduce", 900, sync), ("experts", "grouped_gemm", 100, None)], groups)
    trace = trace_of(rows)
    labels = label(graph, trace, LAYOUT, MODEL)
    result = retime(graph, labels, LAYOUT, LAYOUT.change(ep=8, dp=32), RetimeContext(trace, MODEL))
    assert result.apply(graph).duration_ns[0] == 450


def test_gradients_that_were_never_exchanged_are_named() -> None:
    graph, rows = step([("experts", "grouped_gemm", 100, None)])
    warnings = retimed(graph, rows, ep=8, source=replace(LAYOUT, ep=16)).warnings
    assert any("expert gradients are summed over 2 ranks at ep 8" in warning for warning in warnings)


def test_the_busiest_rank_decides() -> None:
    """One expert of 16 takes half of all tokens: 4 ranks of 4 experts carry 1/2 + 3/30 against a mean of 1/4."""
    share = np.full((1, 16), 0.5 / 15)
    share[0, 0] = 0.5
    kernels = [("experts", "grouped_gemm", 100, None), ("dispatch", "SendRecv", 100, ALL_TO_ALL)]
    graph, rows = step(kernels, EP_GROUP)
    result = retimed(graph, rows, ep=4, loads=Loads(share, "test"))
    assert result.factor == pytest.approx([2.4, 2.4])


DEEPEP = [
    ("dispatch(F)", "deep_ep::internode::dispatch", 1000, Exchange(CollectiveKind.DISPATCH)),
    ("combine(F)", "deep_ep::internode::combine", 2000, Exchange(CollectiveKind.COMBINE)),
    ("dispatch(F)", "deep_ep::internode::notify_dispatch", 300, Exchange(CollectiveKind.NOTIFY)),
    ("dispatch(F)", "deep_ep::internode::notify_dispatch", 100, Exchange(CollectiveKind.NOTIFY)),
]
DEEPSEEK = ModelSpec(hidden=7168, moe_ffn=2048, experts=256, topk=8, router_groups=8, router_topk_groups=4)
EP64 = Layout(ep=64, dp=64, world_size=64, seq=4096, mbs=1)
LINKS = {"intra_node_bytes_per_s": 200e9, "inter_node_bytes_per_s": 50e9, "devices_per_node": 8}


@pytest.mark.parametrize("links", [{}, LINKS])
def test_deduplicating_exchanges_follow_distinct_remote_nodes(links: dict[str, float]) -> None:
    """DeepSeek-V3 from ep 64 to 32: 3.18 to 2.20 remote nodes a token (DESIGN R8), so 0.69 of the time."""
    graph, rows = step(DEEPEP)
    result = retimed(graph, rows, ep=32, source=EP64, model=DEEPSEEK, profile=profile(**links) if links else None)
    assert result.factor[:2] == pytest.approx(2.20 / 3.18, abs=0.002)
    dispatch = result.changes[0]
    assert dispatch.before["remote_nodes"] == pytest.approx(3.18, abs=0.005)
    assert dispatch.after["remote_nodes"] == pytest.approx(2.20, abs=0.005)


def test_dispatch_is_fp8_with_scales_where_the_step_casts_to_fp8() -> None:
    """7168 bytes + 56 scales of 4 bytes against 2 · 7168 bytes."""
    graph, rows = step([*DEEPEP, ("mlp(F)", "per_token_cast_to_fp8", 10, None)])
    changes = retimed(graph, rows, ep=32, source=EP64, model=DEEPSEEK).changes
    assert [change.before["nbytes_per_token"] for change in changes[:2]] == [7168 + 56 * 4, 2 * 7168]


def test_notify_waits_and_does_not_scale() -> None:
    """Its time stays, and may shrink to the shortest that was seen."""
    graph, rows = step(DEEPEP)
    result = retimed(graph, rows, ep=32, source=EP64, model=DEEPSEEK)
    assert result.factor[2:].tolist() == [1.0, 1.0]
    assert result.low[2:] == pytest.approx([1 / 3, 1.0])


def test_a_change_of_tier_takes_the_links_word() -> None:
    """Ep 8 stays inside the node: 4096 tokens · 8 experts' ranks · 7/8 … bytes over 200 GB/s, whatever was measured."""
    graph, rows = step(DEEPEP)
    result = retimed(graph, rows, ep=8, source=EP64, model=DEEPSEEK, profile=profile(**LINKS))
    change = result.changes[1]
    nbytes = 4096 * change.after["copies_inside_node"] * 2 * 7168
    assert result.apply(graph).duration_ns[1] == pytest.approx(nbytes / 200e9 * 1e9, abs=1)
    assert result.grade[1] == Grade.DATASHEET


def test_a_change_of_tier_without_links_is_refused() -> None:
    graph, rows = step(DEEPEP)
    with pytest.raises(
        RefusedError, match="another link tier than was measured; that needs a hardware profile that lists the device"
    ):
        retimed(graph, rows, ep=8, source=EP64, model=DEEPSEEK)


def test_unknown_experts_are_asked_for() -> None:
    graph, rows = step([("experts", "grouped_gemm", 100, None)])
    with pytest.raises(RefusedError, match=r"experts and topk: give --model config\.json"):
        retimed(graph, rows, ep=8, model=ModelSpec())


def test_an_ep_that_does_not_divide_the_experts_names_those_that_do() -> None:
    graph, rows = step([("experts", "grouped_gemm", 100, None)])
    with pytest.raises(RefusedError, match=r"12 experts do not divide by ep 8; ep may be one of 1, 2, 4$"):
        retimed(graph, rows, ep=8, model=replace(MODEL, experts=12))


def test_a_step_without_experts_is_refused() -> None:
    graph, rows = step([("attn(F)", "flash_attention", 500, None)])
    with pytest.raises(RefusedError, match="no expert work can be told apart"):
        retimed(graph, rows, ep=8)


def test_exchanges_cannot_be_invented() -> None:
    graph, rows = step([("experts", "grouped_gemm", 100, None)])
    with pytest.raises(RefusedError, match="measured with ep 1"):
        retimed(graph, rows, ep=8, source=replace(LAYOUT, ep=1))
