"""Loads of the experts from the option's value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from replay.core.errors import RefusedError, TraceError
from replay.program.loads import Loads
from replay.whatif.experts import read_loads, zipf


def test_trace_keeps_what_was_measured() -> None:
    assert read_loads("trace", experts=8) is None


def test_balanced_loads_every_rank_alike() -> None:
    loads = read_loads("balanced", experts=8)
    assert loads is not None
    assert loads.slowest(4).tolist() == [1.0]


def test_zipf_zero_is_balanced() -> None:
    assert zipf(0.0, experts=8, layers=2).slowest(8) == pytest.approx([1.0, 1.0])


def test_zipf_by_hand() -> None:
    """Exponent 1, one expert a rank of 2: shares 1 : 1/2, so 4/3 of the mean."""
    assert zipf(1.0, experts=2, layers=1).slowest(2) == pytest.approx([4 / 3])


def test_equal_questions_get_equal_answers() -> None:
    assert np.array_equal(zipf(1.2, 64, 4).share, zipf(1.2, 64, 4).share)


def test_the_maximum_is_taken_layer_by_layer() -> None:
    """Two layers that load opposite ranks: 1.5 each, although their mean is balanced."""
    loads = Loads(np.array([[0.75, 0.25], [0.25, 0.75]]), "test")
    assert loads.slowest(2).tolist() == [1.5, 1.5]


@pytest.mark.parametrize(("name", "text"), [("c.json", "[[30, 10], [20, 20]]"), ("c.csv", "30,10\n20,20\n")])
def test_counts_of_a_file(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    loads = read_loads(str(path), experts=2)
    assert loads is not None
    assert loads.share.tolist() == [[0.75, 0.25], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3\n", "has 3 counts a row, but the model has 2 experts"),
        ("1,x\n", "is not rows of numbers"),
        ("0,0\n", "at least one token"),
        ("-1,2\n", "0 or more"),
        ("nan,2\n", "0 or more"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        read_loads(str(path), experts=2)


def test_a_missing_file_names_the_choices() -> None:
    with pytest.raises(TraceError, match="neither balanced, trace, zipf:A nor a readable file"):
        read_loads("absent.csv", experts=2)


@pytest.mark.parametrize("text", ["zipf:", "zipf:-1", "zipf:many", "zipf:inf"])
def test_a_bad_exponent_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="exponent must be a number of 0 or more"):
        read_loads(text, experts=8)


def test_loads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(RefusedError, match="do not divide over ep 3"):
        Loads.balanced(8).of_ranks(3)


def test_no_expert_gets_more_than_every_token_once() -> None:
    """Top-2 of 4: at most 1/2 of all assignments; the 0.2 above go to the others as 3 : 1 : 1 … in proportion."""
    loads = Loads(np.array([[0.7, 0.18, 0.06, 0.06]]), "test").capped(2)
    assert loads.share[0] == pytest.approx([0.5, 0.3, 0.1, 0.1])


def test_capping_goes_on_until_nobody_is_above() -> None:
    """Top-3 of 4: cutting 0.6 to 1/3 lifts 0.3 to 1/2, which is cut too; the last third is shared 0.08 : 0.02."""
    loads = Loads(np.array([[0.6, 0.3, 0.08, 0.02]]), "test").capped(3)
    assert loads.share[0] == pytest.approx([1 / 3, 1 / 3, 0.8 / 3, 0.2 / 3])
