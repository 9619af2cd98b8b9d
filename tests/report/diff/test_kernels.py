"""Pairing by hand, and against the textbook."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.report.diff.kernels import align

letters = st.lists(st.integers(0, 3), max_size=12)


def partners(a: str, b: str, limit: int = 100) -> list[int]:
    """Partner in ``b`` of every letter of ``a``."""
    return align(*(np.array([ord(c) for c in text], np.int64) for text in (a, b)), limit).tolist()


def longest_common(a: list[int], b: list[int]) -> int:
    """Length of the longest common subsequence, by dynamic programming."""
    best = [0] * (len(b) + 1)
    for x in a:
        diagonal = 0
        for j, y in enumerate(b, 1):
            diagonal, best[j] = best[j], diagonal + 1 if x == y else max(best[j], best[j - 1])
    return best[-1]


def test_an_added_op_shifts_the_rest() -> None:
    """abc against abxc."""
    assert partners("abc", "abxc") == [0, 1, 3]


def test_a_removed_op_has_no_partner() -> None:
    """abxc against abc."""
    assert partners("abxc", "abc") == [0, 1, -1, 2]


def test_one_side_may_be_empty() -> None:
    """Nothing to pair."""
    assert partners("ab", "") == [-1, -1]
    assert partners("", "ab") == []


def test_too_many_edits_are_given_up() -> None:
    """Two lanes with nothing in common need four edits."""
    assert partners("ab", "cd", limit=3) == []


@given(letters, letters)
def test_as_many_pairs_as_there_can_be(a: list[int], b: list[int]) -> None:
    """Pairs are equal, in order on both sides, and as many as in the longest common subsequence."""
    found = align(np.array(a, np.int64), np.array(b, np.int64), len(a) + len(b))
    pairs = [(i, j) for i, j in enumerate(found.tolist()) if j >= 0]
    assert all(a[i] == b[j] for i, j in pairs)
    assert [j for _, j in pairs] == sorted({j for _, j in pairs})
    assert len(pairs) == longest_common(a, b)
