"""Graphs of whole passes against hand arithmetic and against an independent execution of the schedule."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.core.evidence import Grade
from replay.layout import Layout
from replay.program.p2p import CostKey, ExchangeModel
from replay.program.passes import pass_graph
from replay.program.pipeline_graph import Cost
from replay.program.recorded_steps import Pass
from replay.recording import PassKind
from replay.simulate.engine import simulate
from tests.pipeline_recordings import MS, B, F, execute, layout_of


def step_ms(layout: Layout, pass_ms: Callable[[Pass], float], exchange: ExchangeModel | None = None) -> float:
    """Simulated step of a layout whose passes take ``pass_ms``."""
    graph = pass_graph(
        layout, exchange or ExchangeModel(), lambda item: Cost(round(pass_ms(item) * MS), Grade.MEASURED)
    )
    return simulate(graph.graph).step_ns / MS


def equal(item: Pass) -> int:
    """Forward 10 ms, backward 20 ms."""
    return 10 if item.phase == F else 20


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 2), (4, 8), (8, 3)])
def test_equal_passes_take_the_textbook_step(name: str, p: int, m: int) -> None:
    """(m + p - 1)(f + b): GPipe (Huang et al., 2019) and 1F1B have the same bubble."""
    assert step_ms(layout_of(p, m, name=name), equal) == (m + p - 1) * 30


@pytest.mark.parametrize(("p", "m", "v"), [(2, 4, 2), (4, 8, 2), (4, 8, 4)])
def test_interleaving_divides_the_bubble_by_v(p: int, m: int, v: int) -> None:
    """Bubble over ideal is (p - 1)/(m·v) (Narayanan et al., SC'21, section 2.2)."""
    step = step_ms(layout_of(p, m, v), lambda item: equal(item) / v)
    assert step == pytest.approx(m * 30 * (1 + (p - 1) / (m * v)))


def test_the_slowest_stage_sets_the_pace() -> None:
    """p = 2, m = 4, last stage 20 + 40 ms: 10 in, 4·60 there, and 20 for the last backward's way out."""
    assert step_ms(layout_of(2, 4), lambda item: equal(item) * (1 + item.stage)) == 10 + 4 * 60 + 20


def test_a_message_each_way() -> None:
    """p = 2, m = 1, 3 ms a message: two passes each way and two messages."""
    exchange = ExchangeModel(cost_ns={CostKey(1, exposed=True, own=False): 3 * MS})
    assert step_ms(layout_of(2, 1), equal, exchange) == 2 * 30 + 2 * 3


def test_one_rank_exchanges_nothing() -> None:
    """However dear messages are."""
    exchange = ExchangeModel(cost_ns={CostKey(1, exposed=True, own=False): 1000 * MS})
    assert step_ms(layout_of(1, 4), equal, exchange) == 4 * 30


def test_a_blocking_send_waits_for_its_receiver() -> None:
    """GPipe, p = 2, m = 2, last stage's forwards 50 ms: rank 0's second forward waits for nothing, its first
    backward for all; with blocking sends its passes after the second forward wait for the receive posted at 60."""
    layout = layout_of(2, 2, name="gpipe")

    def slow_end(item: Pass) -> int:
        return 50 if (item.stage, item.phase) == (1, F) else equal(item)

    # rank 1: F0 10..60, F1 60..110, B0 110..130, B1 130..150; rank 0: B0 130..150, B1 150..170
    assert step_ms(layout, slow_end) == 170
    assert step_ms(layout, slow_end, ExchangeModel(blocking=True)) == 170


def test_costs_are_taken_from_the_nearest_kind_seen() -> None:
    """A batch of four messages was never seen: what two cost is the best there is."""
    layout = layout_of(2, 4, 2)
    one_kind = ExchangeModel(cost_ns={CostKey(2, exposed=True, own=own): MS for own in (True, False)})
    kinds = itertools.product((1, 2, 3, 4), (True, False), (True, False))
    every_kind = ExchangeModel(cost_ns={CostKey(*kind): MS for kind in kinds})
    assert step_ms(layout, equal, one_kind) == step_ms(layout, equal, every_kind)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Layout, dict[tuple[int, PassKind, int, int], int]]:
    """Layouts with any pass times."""
    p, v = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    v = v if p > 1 else 1
    layout = layout_of(p, p * draw(st.integers(1, 3)), v)
    items = [(r, k, c, i) for r in range(p) for k in (F, B) for c in range(v) for i in range(layout.microbatches or 1)]
    return layout, {item: draw(st.integers(0, 9)) for item in items}


@given(cases())
def test_free_eager_exchanges_run_as_by_hand(case: tuple[Layout, dict[tuple[int, PassKind, int, int], int]]) -> None:
    """Overlapped and eager, a pass waits for its rank and its input only (one chunk a rank: not overlapped either)."""
    layout, times = case
    exchange = ExchangeModel(overlapped=layout.vpp > 1)
    by_hand = max(end for _, end in execute(layout, times.__getitem__).values())
    assert step_ms(layout, lambda i: times[i.stage, i.phase, i.chunk, i.microbatch], exchange) == by_hand


@given(cases(), st.booleans(), st.booleans())
def test_no_habit_deadlocks_and_none_is_faster_than_free(
    case: tuple[Layout, dict[tuple[int, PassKind, int, int], int]], overlapped: bool, blocking: bool
) -> None:
    """Every exchange habit only ever adds waiting."""
    layout, times = case

    def pass_ms(item: Pass) -> int:
        return times[item.stage, item.phase, item.chunk, item.microbatch]

    habit = ExchangeModel(overlapped=overlapped and layout.vpp > 1, blocking=blocking)
    assert step_ms(layout, pass_ms, habit) >= step_ms(layout, pass_ms, ExchangeModel(overlapped=layout.vpp > 1))


@pytest.mark.parametrize("overlapped", [False, True])
def test_groups_larger_than_the_pipeline_do_not_deadlock_with_blocking_sends(overlapped: bool) -> None:
    """What wraps to the first rank is received ahead of use."""
    layout = Layout(pp=2, vpp=2, world_size=2, microbatches=8, schedule="interleaved", group_size=4)
    exchange = ExchangeModel(overlapped=overlapped, blocking=True)
    assert step_ms(layout, lambda item: equal(item) / 2, exchange) >= 8 * 30
