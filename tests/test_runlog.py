"""Warm-up and the steady step, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.core.columns import Bool, Int64
from replay.runlog import Iterations, steady_rows, warmup_rows


def elapsed(*ms: float) -> Int64:
    """Milliseconds as a column."""
    return np.array([round(value * 1e6) for value in ms], np.int64)


def usable(n: int, *but: int) -> Bool:
    """All rows but some."""
    mask = np.ones(n, np.bool_)
    mask[list(but)] = False
    return mask


@pytest.mark.parametrize(
    ("times", "warm"),
    [
        ((900.0, 100.0, 100.0, 100.0), 1),  # compilation
        ((100.0, 100.0, 100.0, 100.0), 1),  # the first interval is never trusted
        ((900.0, 130.0, 110.0, 100.0, 100.0, 100.0, 100.0, 100.0), 3),  # levels off
        ((900.0, 100.5, 100.0, 100.0, 100.0), 1),  # within 1 % of the level
        ((900.0, 100.0, 130.0, 100.0, 100.0, 100.0), 1),  # a late outlier is no warm-up
        ((900.0, 90.0, 110.0, 95.0, 105.0, 90.0, 110.0), 1),  # noise is no warm-up
        ((500.0,), 0),  # nothing else
    ],
)
def test_warmup(times: tuple[float, ...], warm: int) -> None:
    """Leading rows above the level of the second half."""
    assert warmup_rows(elapsed(*times), usable(len(times))) == warm


def test_warmup_looks_at_usable_rows_only() -> None:
    """A fast row whose update was skipped does not end it."""
    assert warmup_rows(elapsed(900.0, 50.0, 140.0, 100.0, 100.0, 100.0), usable(6, 1)) == 3


def test_steady_rows_leave_out_what_is_marked() -> None:
    """Warm-up, skipped update, checkpoint, evaluation, another run."""
    n = 7
    no, zero, nan = np.zeros(n, np.bool_), np.zeros(n, np.int64), np.full(n, np.nan)

    def only(row: int) -> Bool:
        mask = no.copy()
        mask[row] = True
        return mask

    iterations = Iterations(
        run=np.array([0, 0, 0, 0, 0, 0, 1], np.int32), iteration=np.arange(n), span=zero + 1, elapsed_ns=zero + 5,
        consumed_samples=zero, global_batch=zero, skipped=np.where(only(1), 1, 0), nan=zero.copy(), loss=nan,
        learning_rate=nan.copy(), grad_norm=nan.copy(), tflops_per_device=nan.copy(),
        tokens_per_s_per_device=nan.copy(), is_warmup=only(0), is_checkpoint=only(2), is_evaluation=only(3),
    )  # fmt: skip
    assert np.flatnonzero(steady_rows(iterations, 0)).tolist() == [4, 5]


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=40))
def test_warmup_always_leaves_a_row(times: list[int]) -> None:
    """Whatever the times."""
    assert warmup_rows(np.array(times, np.int64), usable(len(times))) < len(times)


@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=20), st.integers(2, 50))
def test_scaling_changes_nothing(times: list[int], factor: int) -> None:
    """Units do not matter."""
    column = np.array(times, np.int64)
    assert warmup_rows(column, usable(len(times))) == warmup_rows(column * factor, usable(len(times)))
