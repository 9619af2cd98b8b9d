"""Pass templates: what they keep apart, and how they spread over other chunks."""

from __future__ import annotations

import pytest

from replay.core.errors import LayoutError, RefusedError
from replay.core.evidence import Grade
from replay.layout import Layout
from replay.program.pass_costs import PassCosts, costs_for, learn_costs
from replay.program.recorded_steps import Pass, recorded_steps
from replay.recording import PassKind
from tests.pipeline_recordings import MS, B, F, Item, PassMs, layout_of, recording_of


def learned(layout: Layout, pass_ms: PassMs) -> PassCosts:
    """Templates of a recording made by hand."""
    return learn_costs(recorded_steps(recording_of(layout, pass_ms)).steady, layout)


def with_ends(item: Item) -> int:
    """Layers 12 ms forward and 24 ms backward; embedding +2 on the first rank, head +9 on the last (p = 4)."""
    extra = {0: 2, 3: 9}.get(item[0], 0)
    return (12 if item[1] == F else 24) + extra


def cost_ms(costs: PassCosts, target: Layout, place: int, phase: PassKind, layers: int | None = None) -> float:
    """Cost of a middle pass of chunk ``place`` of the target's model."""
    item = Pass(0, place % target.pp, phase, place // target.pp, 1)
    return costs_for(costs, target, layers)(item).duration_ns / MS


def test_same_chunks_keep_their_own_cost() -> None:
    """Another schedule or batch changes no pass."""
    costs = learned(layout_of(4, 8), with_ends)
    target = layout_of(4, 16, name="gpipe")
    assert [cost_ms(costs, target, place, F) for place in range(4)] == [14, 12, 12, 21]


def test_splitting_halves_the_layers_and_keeps_embedding_and_head_whole() -> None:
    """12 / 2 everywhere, +2 on the first chunk, +9 on the last."""
    costs = learned(layout_of(4, 8), with_ends)
    forward = [cost_ms(costs, layout_of(4, 8, 2), place, F) for place in range(8)]
    backward = [cost_ms(costs, layout_of(4, 8, 2), place, B) for place in range(8)]
    assert forward == [8, 6, 6, 6, 6, 6, 6, 15]
    assert backward == [14, 12, 12, 12, 12, 12, 12, 21]


def test_merging_adds_the_layers() -> None:
    """Two stages of two chunks' layers each: 24 + 2 and 24 + 9."""
    costs = learned(layout_of(4, 8), with_ends)
    assert [cost_ms(costs, layout_of(2, 8), place, F) for place in range(2)] == [26, 33]


def test_a_slow_rank_stays_slow_when_its_chunk_is_split() -> None:
    """Rank 1 takes 16 ms where the others take 12; the rank, not the layers, is slow."""
    costs = learned(layout_of(4, 8), lambda item: 16 if item[:2] == (1, F) else 12)
    forward = [cost_ms(costs, layout_of(4, 8, 2), place, F) for place in range(8)]
    assert forward[1] == forward[5] == 8
    assert forward[2] == forward[6] == 6


def test_an_end_chunk_with_fewer_layers_has_no_extra() -> None:
    """First rank 8 ms: nothing to keep apart, never a negative embedding."""
    costs = learned(layout_of(4, 8), lambda item: 8 if item[0] == 0 else 12)
    assert cost_ms(costs, layout_of(4, 8, 2), 0, F) == 4


def test_first_and_last_microbatch_are_templates_of_their_own() -> None:
    """The first casts weights: 20 ms against 12; it stays the first in another schedule."""
    costs = learned(layout_of(4, 8), lambda item: 20 if item[3] == 0 else 12)
    price = costs_for(costs, layout_of(4, 8, name="gpipe"), None)
    assert [price(Pass(0, 1, F, 0, i)).duration_ns // MS for i in range(3)] == [20, 12, 12]


def test_grades_say_how_the_split_is_known() -> None:
    """Measured as recorded, scaled with a layer count, assumed without."""
    costs = learned(layout_of(4, 8), with_ends)
    item = Pass(0, 1, F, 0, 1)
    assert costs_for(costs, layout_of(4, 8), None)(item).grade == Grade.MEASURED
    assert costs_for(costs, layout_of(4, 8, 2), 32)(item).grade == Grade.SCALED
    assert costs_for(costs, layout_of(4, 8, 2), None)(item).grade == Grade.ASSUMED


def test_layers_that_do_not_divide_are_named() -> None:
    """36 layers over 8 chunks."""
    with pytest.raises(LayoutError, match="36 layers do not divide over 8 chunks"):
        costs_for(learned(layout_of(4, 8), with_ends), layout_of(4, 8, 2), 36)


def test_an_uneven_split_needs_the_layer_count() -> None:
    """4 chunks into 3: no saying which layers move; with 12 layers each holds 4 instead of 3."""
    costs = learned(layout_of(4, 9), with_ends)
    with pytest.raises(RefusedError, match="--layers"):
        costs_for(costs, layout_of(3, 9), None)
    assert cost_ms(costs, layout_of(3, 9), 1, F, layers=12) == 16


@pytest.mark.parametrize("p", [1, 2])
def test_embedding_and_head_must_be_told_apart(p: int) -> None:
    """Without a chunk between the ends there is no plain layer to compare with."""
    costs = learned(layout_of(p, 8), with_ends)
    with pytest.raises(RefusedError, match="embedding and head"):
        costs_for(costs, layout_of(4, 8), None)
