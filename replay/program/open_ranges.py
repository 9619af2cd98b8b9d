"""Which meaningful ranges are open on a host lane at a time, as a step function of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Bool, Int64
from replay.program.ranges import MISSING, NOTHING, RangeMeaning, read_range
from replay.trace import EventKind, Trace

_EDGE = tuple[int, int, int]  # time, 0 end or 1 begin, event


FIELDS = ("phase", "role", "microbatch", "chunk", "layer", "event")
"""Columns of an open state; ``event`` is the trace event of the innermost range."""

UNSAID = np.array([NOTHING.phase, NOTHING.role, NOTHING.microbatch, NOTHING.chunk, NOTHING.layer, MISSING])


@dataclass(frozen=True, slots=True)
class OpenRanges:
    """From ``time_ns[i]`` until the next entry, row ``i + 1`` of ``states`` (columns: FIELDS) holds; row 0 before."""

    time_ns: Int64
    states: Int64

    def at(self, time_ns: Int64) -> Int64:
        """Rows of ``states`` that hold at each time; a range holds its begin and not its end."""
        return np.asarray(self.states[np.searchsorted(self.time_ns, time_ns, side="right")])


def inside(inner: Int64, outer: Int64) -> Int64:
    """Rows of ``inner`` completed by ``outer`` where they say nothing."""
    return np.where(inner == UNSAID, outer, inner)


def open_ranges(trace: Trace, known: Mapping[int, RangeMeaning] | None = None) -> dict[int, OpenRanges]:
    """Step function of every lane that has a range with a meaning, by lane.

    ``known`` holds the meaning of events of which more is known than their names say.
    """
    by_name = [read_range(name) for name in trace.names]
    telling = np.array([meaning != NOTHING for meaning in by_name], dtype=np.bool_)
    lasting = trace.dur_ns > 0  # a range without length encloses nothing
    ranges = is_range(trace) | (trace.kind == EventKind.MODULE)
    events = np.flatnonzero(ranges & telling[trace.name] & lasting)
    lanes = trace.lane[events]
    return {int(lane): _sweep(trace, events[lanes == lane], by_name, known or {}) for lane in np.unique(lanes)}


def is_range(trace: Trace) -> Bool:
    """Events that may be a program's own ranges: annotations, and operators that show no input and no number.

    torch_npu draws every range as an operator.
    """
    bare = (trace.kind == EventKind.CPU_OP) & (trace.shape < 0) & (trace.sequence < 0)
    return np.asarray(bare | (trace.kind == EventKind.ANNOTATION))


def _sweep(
    trace: Trace, events: npt.NDArray[np.intp], by_name: list[RangeMeaning], known: Mapping[int, RangeMeaning]
) -> OpenRanges:
    """Walk begins and ends in time order. Ranges that overlap without nesting close by themselves, whoever is inner."""
    times: list[int] = []
    states = [UNSAID.tolist()]
    stack: list[int] = []
    for time, begins, event in _edges(trace, events):
        stack.append(event) if begins else stack.remove(event)
        state = _state(stack, [known.get(open_event) or by_name[trace.name[open_event]] for open_event in stack])
        if times and times[-1] == time:
            states[-1] = state
        else:
            times.append(time)
            states.append(state)
    return OpenRanges(np.array(times, dtype=np.int64), np.array(states, dtype=np.int64))


def _state(stack: list[int], meanings: list[RangeMeaning]) -> list[int]:
    """Row of FIELDS for the ranges open, outer to inner."""
    meaning = NOTHING
    for inner in meanings:
        meaning = inner.inside(meaning)
    innermost = stack[-1] if stack else MISSING
    return [meaning.phase, meaning.role, meaning.microbatch, meaning.chunk, meaning.layer, innermost]


def _edges(trace: Trace, events: npt.NDArray[np.intp]) -> Iterator[_EDGE]:
    """Begins and ends by time; at one time ends come first, and an outer range begins before an inner one."""
    begin, end = trace.start_ns[events], trace.end_ns[events]
    time = np.concatenate([end, begin])
    kind = np.repeat([0, 1], len(events))
    both = np.concatenate([events, events])
    length = np.concatenate([begin - end, begin - end])  # of begins, the longest first
    for i in np.lexsort((both, length, kind, time)):
        yield int(time[i]), int(kind[i]), int(both[i])
