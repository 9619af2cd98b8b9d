"""Counts of collectives that agree over the ranks of a group, although each rank counts from the begin of profiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from parsers.ascend.counts import sequences
from parsers.ascend.groups import Member
from parsers.ascend.hccl import op_of_name
from replay.core.units import NS_PER_MS

ENDS_MS = [1, 2, 4, 5, 8, 9, 11, 15, 16, 18]  # unevenly spaced
EVEN_MS = list(range(1, 11))


def member(name: str, end_ms: float, count: int = 64, group: str = "g") -> Member:
    """An operator that ends then."""
    return Member(replace(op_of_name(name, round(end_ms * NS_PER_MS) - 1000, 1000), count=count), group, None)


def recorded(ends_ms: Sequence[float], *, since: int = 0, apart_ms: float = 0) -> dict[int, Member]:
    """A rank that sees the all-reduces that end then from number ``since`` on, on a clock that is ahead."""
    own = [end + apart_ms for end in ends_ms[since:]]
    return {row: member(f"hcom_allReduce__123_{row}_1", end) for row, end in enumerate(own)}


@pytest.mark.parametrize("apart_ms", [0, 5, -700])
@pytest.mark.parametrize("since", [0, 3])
def test_equal_operators_are_told_apart_by_when_they_end(since: int, apart_ms: float) -> None:
    """Any shift would pair equals with equals; under the right one the ends are always equally far apart."""
    first, second = sequences([recorded(ENDS_MS), recorded(ENDS_MS, since=since, apart_ms=apart_ms)], {"g": 8})
    assert [second[row] for row in range(10 - since)] == list(range(since, 10))
    assert first == {row: row for row in range(10)}


def test_evenly_spaced_operators_are_matched_by_the_clock() -> None:
    """Every shift keeps ends equally far apart; that of the common clock is taken."""
    _, second = sequences([recorded(EVEN_MS), recorded(EVEN_MS, since=3, apart_ms=0.1)], {"g": 8})
    assert second[0] == 3


def test_numbers_are_never_negative() -> None:
    """The second rank began earlier: its first three operators are before all that the first one saw."""
    first, second = sequences([recorded(ENDS_MS, since=3), recorded(ENDS_MS)], {"g": 8})
    assert (min(first.values()), min(second.values())) == (3, 0)


def test_exchanges_of_pairs_do_not_shift_collectives() -> None:
    """The second rank also receives: its all-reduces have the counts 2 and 5, the first one's 1 and 3."""
    names = ["send", "allReduce", "send", "allReduce"], ["receive", "send", "allReduce"] * 2
    ranks = [{row: member(f"hcom_{name}__123_{row}_1", row) for row, name in enumerate(own)} for own in names]
    first, second = sequences(ranks, {"g": 4})
    assert (first, second) == ({1: 0, 3: 1}, {2: 0, 5: 1})


def test_both_of_two_ranks_count_every_exchange() -> None:
    """A send and the receive of it have one number."""
    first, second = sequences(
        [
            {0: member("hcom_send__123_4_1", 1), 1: member("hcom_receive__123_5_1", 2)},
            {0: member("hcom_receive__123_4_1", 1), 1: member("hcom_send__123_5_1", 2)},
        ],
        {"g": 2},
    )
    assert first == second == {0: 4, 1: 5}


def test_parts_of_unequal_size_are_one_collective() -> None:
    """Every rank sends another number of elements to the experts."""
    own = [
        {row: member(f"hcom_alltoallv__123_{row}_1", end, 64 + rank) for row, end in enumerate(ENDS_MS)}
        for rank in (0, 1)
    ]
    first, second = sequences(own, {"g": 8})
    assert first == second


def test_what_the_devices_own_processor_launches_has_counts_of_its_own() -> None:
    """Two operators with the count 0 are two."""
    own = {0: member("hcom_allReduce__123_0_1", 1), 1: member("hcom_allReduce_AicpuKernel_123_0_1", 2)}
    (found,) = sequences([own], {"g": 8})
    assert found[0] != found[1]


@pytest.mark.parametrize("count", ["-1", "9" * 25])
def test_what_is_no_count_is_no_number(count: str) -> None:
    """CANN writes -1 for operators from before the profile; damaged names may hold anything."""
    own = {0: member(f"hcom_allReduce__123_{count}_1", 1), 1: member("hcom_allReduce__123_0_1", 2)}
    found = sequences([own, own], {"g": 8})
    assert found == [{1: 0}, {1: 0}]
