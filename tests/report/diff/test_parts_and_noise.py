"""Parts, words and noise by hand arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from replay.report.diff.noise import find_noise
from replay.report.diff.parts import difference
from replay.report.diff.types import Category
from replay.report.diff.unit_table import Template, UnitTable
from replay.report.diff.words import plain


def table(before: list[int], after: list[int]) -> UnitTable:
    """Units of one kernel on one rank."""
    n = len(before)
    zeros, present = np.zeros(n, np.int64), np.ones(n, np.bool_)
    return UnitTable(
        zeros, zeros, np.array(before), np.array(after), zeros, zeros, present, present,
        (Template(Category.KERNEL, "gemm", "", "", -1),),
    )  # fmt: skip


def test_what_the_states_leave_open_is_unattributed() -> None:
    """20 ns more compute of 25 ns in all."""
    assert difference({"compute": 10}, {"compute": 30}, 25) == {"compute": 20, "unattributed": 5}


def test_a_side_without_states_leaves_all_open() -> None:
    """Nothing is known but the difference."""
    assert difference({}, {"compute": 30}, 25) == {"unattributed": 25}


def test_jitter_is_noise() -> None:
    """Changes of +10, -10, +11, -9, +1 %, 3 ns in all.

    Their median is 1 %, the median distance from it 10 %, so sigma is 14.8 % and the limit 2 sigma sqrt(5) 100 = 66 ns.
    """
    found = find_noise(table([100] * 5, [110, 90, 111, 91, 101]))
    assert found.noise.all()
    assert found.spread[0] == pytest.approx(1.4826 * 0.10)


def test_a_common_factor_is_no_noise() -> None:
    """All 20 % longer, whatever their length: no spread at all."""
    assert not find_noise(table([100, 300, 50, 1000], [120, 360, 60, 1200])).noise.any()


def test_one_stall_among_repeats_is_no_noise() -> None:
    """Four calls as before and one of ten times its length: the robust spread is zero."""
    assert not find_noise(table([100] * 5, [100, 100, 1000, 100, 100])).noise.any()


def test_steps_with_nothing_in_common_have_no_noise() -> None:
    """No unit that both have."""
    assert len(find_noise(table([], [])).noise) == 0


def test_too_few_repeats_say_nothing() -> None:
    """Two calls have no spread, so no change of theirs is called noise."""
    found = find_noise(table([100, 100], [101, 99]))
    assert not found.noise.any()
    assert np.isnan(found.spread).all()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
         "vectorized_elementwise_kernel<CUDAFunctor_add>"),
        ("void at::native::(anonymous namespace)::indexSelect<float, unsigned int>(float*)", "indexSelect<>"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("flash_attention", "flash_attention"),
    ],
)  # fmt: skip
def test_names_for_reading(name: str, words: str) -> None:
    """What tells kernels apart stays."""
    assert plain(name) == words
