"""Open ranges against a plain reading of the definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.program.open_ranges import FIELDS, UNSAID, inside, open_ranges
from replay.program.ranges import read_range
from replay.program.types import Phase, Role
from tests.program.events import HOST, operator, span, trace_of

NAMES = ("forward mb=1", "backward", "layer=2", "experts", "attn(W)", "ProfilerStep#1")
RANGES = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=8)


@given(RANGES, st.integers(-2, 45))
def test_the_meaning_at_a_time_is_that_of_the_ranges_around_it(rows: list[tuple[str, int, int]], at: int) -> None:
    """Outer to inner: by begin, the longer first; equal ranges in the order of the trace."""
    trace = trace_of([span(name, HOST, begin, begin + length) for name, begin, length in rows])
    meaning = read_range("")
    for event in np.flatnonzero((trace.start_ns <= at) & (trace.end_ns > at)):  # events are sorted by (begin, -length)
        meaning = read_range(trace.name_of(int(event))).inside(meaning)
    lanes = open_ranges(trace)
    state = lanes[HOST].at(np.array([at]))[0] if lanes else UNSAID
    assert state[:5].tolist() == [meaning.phase, meaning.role, meaning.microbatch, meaning.chunk, meaning.layer]


def test_ranges_that_cross_close_by_themselves() -> None:
    """forward from 0 to 10, experts from 5 to 15: at 12 only the experts are open."""
    lanes = open_ranges(trace_of([span("forward", HOST, 0, 10), span("experts", HOST, 5, 15)]))
    phase, role = (lanes[HOST].at(np.array([5, 12]))[:, FIELDS.index(name)].tolist() for name in ("phase", "role"))
    assert phase == [Phase.FORWARD, Phase.NONE]
    assert role == [Role.EXPERTS, Role.EXPERTS]


def test_a_range_without_length_encloses_nothing() -> None:
    """Its end would come before its begin."""
    lanes = open_ranges(trace_of([span("forward", HOST, 0, 10), span("experts", HOST, 5, 5)]))
    assert lanes[HOST].at(np.array([5]))[0][FIELDS.index("role")] == Role.NONE


def test_lanes_without_meaning_are_left_out() -> None:
    assert open_ranges(trace_of([span("ProfilerStep#1", HOST, 0, 10)])) == {}


def test_an_operator_without_inputs_and_number_may_be_a_range() -> None:
    """torch_npu draws ranges as operators; what has a number is an autograd function."""
    rows = [operator("forward microbatch=2", HOST, 0, 10), operator("experts", HOST, 1, 9, sequence=7)]
    state = open_ranges(trace_of(rows))[HOST].at(np.array([5]))[0]
    assert state[:3].tolist() == [Phase.FORWARD, Role.NONE, 2]


def test_inner_rows_win() -> None:
    inner, outer = UNSAID.copy(), np.array([1, 2, 3, 4, 5, 6])
    inner[1] = Role.EXPERTS
    assert inside(inner[None], outer[None])[0].tolist() == [1, Role.EXPERTS, 3, 4, 5, 6]
