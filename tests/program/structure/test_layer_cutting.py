"""Layers inside passes, on symbols."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.program.structure._anchors import Strand, choose, repeated_unit
from replay.program.structure._bodies import AFTER, BEFORE, Body, layers_of

ANCHOR = ord("A")
NONE = np.full(128, -1, np.int64)


def symbols(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64)


def body(text: str, *, opening: bool = True, closing: bool = True) -> Body:
    symbol = symbols(text)
    return Body(symbol, symbol == ANCHOR, np.zeros(len(symbol), np.bool_), opening, closing)


def cut(text: str) -> str:
    """Layer of every symbol: a digit, ``<`` before and ``>`` behind the layers."""
    (layers,) = layers_of([body(text)])
    return "".join({BEFORE: "<", AFTER: ">"}.get(layer, str(layer)) for layer in layers.tolist())


def test_equal_layers() -> None:
    assert cut("e" + "nqAp" * 3 + "hl") == "<000011112222>>"


def test_a_final_norm_is_not_the_next_layer() -> None:
    """The head begins with what layers begin with."""
    assert cut("e" + "nqApnfg" * 2 + "nhl") == "<00000001111111>>>"


def test_a_first_layer_of_another_kind() -> None:
    assert cut("e" + "nqApd" + "nqApxyz" * 2 + "hl") == "<0000011111112222222>>"


def test_a_last_layer_of_a_kind_of_its_own() -> None:
    """It ends where a norm comes once more than in other layers."""
    assert cut("e" + "nqApnf" * 2 + "nqApnxyz" + "nhl") == "<00000011111122222222>>>"


def test_a_part_of_a_layer_that_others_begin_with_is_none() -> None:
    """Encoder layers and decoder layers with cross-attention."""
    assert (
        cut("e" + "nqApfgf" * 2 + ("nqAp" + "nqApfgf") * 2 + "hl")
        == "<" + "0" * 7 + "1" * 7 + "2" * 11 + "3" * 11 + ">>"
    )


def test_one_layer_a_chunk_needs_the_chunk_between() -> None:
    bodies = [body("enqAp", closing=False), body("nqAp", opening=False, closing=False), body("nqAphl", opening=False)]
    found = [layers.tolist() for layers in layers_of(bodies)]
    assert found == [[BEFORE, 0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0, AFTER, AFTER]]


@given(
    kinds=st.lists(st.text("abcdefg", min_size=1, max_size=6), min_size=1, max_size=3, unique=True),
    order=st.lists(st.integers(0, 2), min_size=4, max_size=12),
)
def test_any_order_of_kinds(kinds: list[str], order: list[int]) -> None:
    """Layers are a common attention and an MLP of any kind that occurs before the last layer."""
    chosen = [kinds[index % len(kinds)] + "z" for index in order]
    chosen[-1] = chosen[0]
    layers = ["nqAp" + mlp for mlp in chosen]
    expected = [BEFORE] + [number for number, layer in enumerate(layers) for _ in layer] + [AFTER] * 2
    (found,) = layers_of([body("e" + "".join(layers) + "hl")])
    assert found.tolist() == expected


def test_attention_comes_before_other_work() -> None:
    attention = NONE.copy()
    attention[ANCHOR] = 0
    strand = Strand(symbols("enqApnqAphl"), np.ones(11))
    anchor = choose([strand], attention, NONE, None)
    assert anchor is not None
    assert anchor.symbols.tolist() == [ANCHOR]


def test_stated_layers_choose_the_longest_work_of_their_number() -> None:
    strand = Strand(symbols("eabcabcabch"), np.array([1, 1, 5, 2, 1, 5, 2, 1, 5, 2, 99.0]))
    anchor = choose([strand], NONE, NONE, 3)
    assert anchor is not None
    assert anchor.symbols.tolist() == [ord("b")]


def test_the_softmax_of_a_loss_is_no_layer() -> None:
    softmax = NONE.copy()
    softmax[ord("s")] = 0
    assert choose([Strand(symbols("abcdefgs"), np.ones(8))], NONE, softmax, None) is None


def test_repeated_unit_in_its_surroundings() -> None:
    unit = repeated_unit(symbols("exabcabcabcabhl"))
    assert unit is not None
    assert (unit.first, unit.last, unit.period, unit.copies) == (2, 11, 3, 3)


def test_one_kernel_over_and_over_is_no_layer() -> None:
    """A layer is made of several pieces of work."""
    assert choose([Strand(symbols("kkkkkkkk"), np.ones(8))], NONE, NONE, None) is None
    assert choose([Strand(symbols("krkrkrkr"), np.ones(8))], NONE, NONE, None) is not None
