"""Which way work goes, from a few names."""

import numpy as np

from replay.program.structure._directions import Work, directions

ANCHORS = {"F": 1, "B": -1}


def ways(text: str) -> str:
    """Directions of work called by single letters: F and B are anchors, U an update; ``|`` is a transfer."""
    ops = [letter for letter in text if letter != "|"]
    cut = [text[: place + 1].count("|") for place, letter in enumerate(text) if letter != "|"]
    symbol = np.array([ord(letter) for letter in ops], np.int64)
    anchor = np.array([ANCHORS.get(letter, 0) for letter in ops], np.int64)
    update = np.array([letter == "U" for letter in ops], np.bool_)
    found = directions(Work(symbol, anchor, update, np.array(cut, np.int64)))
    return "".join({1: "f", -1: "b", 2: "u", 0: "."}[way] for way in found.tolist())


def test_between_equal_anchors() -> None:
    assert ways("FxyFBzB") == "ffffbbb"


def test_a_change_lies_where_what_was_seen_elsewhere_fits() -> None:
    """x was seen forward, z backward."""
    assert ways("FxFxzBzB") == "ffffbbbb"


def test_a_change_lies_at_a_transfer() -> None:
    """Both x count as forward work seen before, but only the first is before the transfer."""
    assert ways("FxFx|xBB") == "ffffbbb"


def test_the_last_pass_goes_on_over_what_it_did_before() -> None:
    assert ways("FxFBzBzq") == "fffbbbb."


def test_an_update_between_iterations_is_no_pass() -> None:
    assert ways("FBzBzUqUxFxFB") == "fbbbbuuuffffb"


def test_without_names_of_forward_work_wide_gaps_are_passes() -> None:
    assert ways("abcdefghijkBzBzBabcdefghijkBzB") == "f" * 11 + "b" * 5 + "f" * 11 + "b" * 3


def test_nothing_is_known_without_backward_names() -> None:
    assert ways("FxyF") == "...."
