"""Every schedule of the folder: complete, causal and free of deadlock; and Megatron's published orders."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from replay.core.errors import LayoutError, UnknownName
from replay.layout import SCHEDULES
from replay.pipelines import schedule, schedules
from replay.recording import PassKind

F, B = PassKind.FORWARD, PassKind.BACKWARD
NAMES = sorted(schedules())


@st.composite
def sizes(draw):
    """(p, m, v, g): whole groups plus a rest; what one schedule refuses another runs."""
    p, v = draw(st.integers(1, 6)), draw(st.sampled_from([1, 1, 2, 3, 4]))
    g = p + draw(st.integers(0, 3))
    return p, g * draw(st.integers(1, 3)) + draw(st.sampled_from([0, p])) % g, v, g


def passes(name, p, rank, m, v=1, g=1):
    order = schedule(name).order(p, rank, m, v, g)
    return [(PassKind(k), int(i), int(c)) for k, i, c in zip(order.phase, order.microbatch, order.chunk, strict=True)]


def producers(item, rank, p, v):
    """Passes that must end before ``item`` of ``rank`` may start, as (rank, pass)."""
    phase, microbatch, chunk = item
    if phase == F:
        before = chunk * p + rank - 1
        return [] if before < 0 else [(before % p, (F, microbatch, before // p))]
    after = chunk * p + rank + 1
    own = (rank, (F, microbatch, chunk))
    return [own] if after == p * v else [own, (after % p, (B, microbatch, after // p))]


def run_to_end(orders, p, v):
    """Execute in-order ranks; number of passes that never got their input."""
    done, position, moved = set(), [0] * p, True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while position[rank] < len(order):
                if not all(need in done for need in producers(order[position[rank]], rank, p, v)):
                    break
                done.add((rank, order[position[rank]]))
                position[rank] += 1
                moved = True
    return sum(len(order) for order in orders) - len(done)


def test_the_layout_knows_every_schedule():
    assert set(SCHEDULES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(sizes=sizes())
def test_each_pass_runs_once_and_nothing_deadlocks(name, sizes):
    p, m, v, g = sizes
    try:
        schedule(name).check(p, m, v, g)
    except LayoutError:
        assume(False)
    orders = [passes(name, p, rank, m, v, g) for rank in range(p)]
    every = Counter((phase, i, c) for phase in (F, B) for i in range(m) for c in range(v))
    assert all(Counter(order) == every for order in orders)
    assert all(order.index((F, i, c)) < order.index((B, i, c)) for order in orders for _, i, c in order)
    assert run_to_end(orders, p, v) == 0


@pytest.mark.parametrize("name", NAMES)
def test_impossible_sizes_are_refused(name):
    with pytest.raises(LayoutError):
        schedule(name).check(4, 0, 1, 4)
    with pytest.raises(LayoutError):
        schedule(name).order(0, 0, 4, 1, 4)


def test_1f1b_second_of_four_ranks():
    """p = 4, m = 4: rank 1 warms up 2 forwards (Narayanan et al., SC'21, figure 4)."""
    assert [(phase, i) for phase, i, _ in passes("1f1b", 4, 1, 4)] == [
        (F, 0), (F, 1), (F, 2), (B, 0), (F, 3), (B, 1), (B, 2), (B, 3),
    ]  # fmt: skip


def test_1f1b_with_fewer_microbatches_than_ranks_warms_up_all():
    assert [phase for phase, _, _ in passes("1f1b", 8, 0, 3)] == [F, F, F, B, B, B]


def test_interleaved_last_rank_starts_as_published():
    """p = 4, v = 2, m = 8: the last device's warm-up is one group through its first chunk (SC'21, figure 4 bottom)."""
    head = passes("interleaved", 4, 3, 8, 2, 4)[:8]
    assert head == [(F, 0, 0), (F, 1, 0), (F, 2, 0), (F, 3, 0), (F, 0, 1), (B, 0, 1), (F, 1, 1), (B, 1, 1)]


def test_interleaved_groups_larger_than_the_pipeline():
    """g = 3 > p = 2: three micro-batches pass a chunk before the next chunk; the rest forms the last group."""
    forward = [(i, c) for phase, i, c in passes("interleaved", 2, 0, 5, 2, 3) if phase == F]
    assert forward == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (4, 0), (3, 1), (4, 1)]


@pytest.mark.parametrize(
    ("p", "m", "g", "text"), [(4, 6, 4, "last group of 2"), (4, 8, 2, "groups of 2"), (1, 4, 1, "2 pipeline")]
)
def test_interleaved_names_the_numbers_that_do_not_fit(p, m, g, text):
    with pytest.raises(LayoutError, match=text):
        schedule("interleaved").check(p, m, 2, g)


def test_single_chunk_schedules_refuse_vpp():
    with pytest.raises(LayoutError, match="vpp is 2"):
        schedule("1f1b").check(4, 8, 2, 4)


def test_unknown_schedule_lists_the_known():
    with pytest.raises(UnknownName, match="1f1b, gpipe, interleaved"):
        schedule("zigzag")
