"""Host events as trees: which operator, range or module a host thread was in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.jit import kernel
from replay.program.origins import Origins
from replay.trace import EventKind, Trace

CALL_KINDS = (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.MODULE)


@dataclass(frozen=True, slots=True)
class Calls:
    """Operators, ranges and module calls of all host threads, by (lane, begin, longest first): callers come first.

    ``event`` is the trace row of every call, ``caller`` the call it is nested in (an index into these columns, -1 for
    none), and ``of_op`` the innermost call that was open at the origin of every op of the graph, -1 for none.
    """

    event: Int64
    caller: Int64
    of_op: Int64

    def __len__(self) -> int:
        return len(self.event)

    def names(self, trace: Trace) -> Int64:
        """Name code of every call."""
        return trace.name[self.event].astype(np.int64)

    def innermost(self, marked: Bool) -> Int64:
        """The nearest marked call among every call and its callers, -1 where none is marked."""
        return _innermost(self.caller, marked)

    def outermost(self, marked: Bool) -> Int64:
        """The farthest marked call among every call and its callers, -1 where none is marked."""
        return _outermost(self.caller, marked)

    def at_ops(self, of_call: Int64) -> Int64:
        """A column of calls at every op: that of its innermost call, -1 where it has none."""
        return np.where(self.of_op >= 0, of_call[self.of_op], -1) if len(self) else np.full(len(self.of_op), -1)


def calls_of(trace: Trace, places: Origins) -> Calls:
    """The calls of ``trace`` and where the ops with these origins lie in them."""
    on_host = np.array([not lane.is_device for lane in trace.lanes], np.bool_)
    wanted = np.isin(trace.kind, CALL_KINDS) & (trace.dur_ns > 0)
    event = np.flatnonzero(wanted & on_host[trace.lane]) if len(on_host) else np.zeros(0, np.int64)
    event = event[np.lexsort((-trace.dur_ns[event], trace.start_ns[event], trace.lane[event]))]
    lane, start, end = trace.lane[event].astype(np.int64), trace.start_ns[event], trace.end_ns[event]
    caller = _callers(lane, start, end)
    order = np.lexsort((places.time_ns, places.lane))
    of_op = np.full(len(places.lane), -1, np.int64)
    of_op[order] = _open_at(lane, start, end, places.lane[order].astype(np.int64), places.time_ns[order])
    return Calls(event.astype(np.int64), caller, of_op)


@kernel
def _callers(lane: Int64, start: Int64, end: Int64) -> Int64:  # pragma: no cover - compiled
    """Nearest earlier interval of the same lane that contains each one whole."""
    caller = np.full(len(lane), -1, np.int64)
    stack = np.empty(len(lane), np.int64)
    depth = 0
    for i in range(len(lane)):
        while depth > 0 and (lane[stack[depth - 1]] != lane[i] or end[stack[depth - 1]] <= start[i]):
            depth -= 1
        top = depth - 1
        while top >= 0 and end[stack[top]] < end[i]:
            top -= 1
        if top >= 0:
            caller[i] = stack[top]
        stack[depth] = i
        depth += 1
    return caller


@kernel
def _open_at(
    lane: Int64, start: Int64, end: Int64, at_lane: Int64, at_ns: Int64
) -> Int64:  # pragma: no cover - compiled
    """Innermost interval open at every (lane, time); both tables are sorted by lane and time."""
    found = np.full(len(at_lane), -1, np.int64)
    stack = np.empty(len(lane), np.int64)
    depth = 0
    i = 0
    for k in range(len(at_lane)):
        while i < len(lane) and (lane[i] < at_lane[k] or (lane[i] == at_lane[k] and start[i] <= at_ns[k])):
            while depth > 0 and (lane[stack[depth - 1]] != lane[i] or end[stack[depth - 1]] <= start[i]):
                depth -= 1
            stack[depth] = i
            depth += 1
            i += 1
        top = depth - 1
        while top >= 0 and (lane[stack[top]] != at_lane[k] or end[stack[top]] <= at_ns[k]):
            top -= 1
        if top >= 0:
            found[k] = stack[top]
    return found


@kernel
def _innermost(caller: Int64, marked: Bool) -> Int64:  # pragma: no cover - compiled
    found = np.full(len(caller), -1, np.int64)
    for i in range(len(caller)):
        if marked[i]:
            found[i] = i
        elif caller[i] >= 0:
            found[i] = found[caller[i]]
    return found


@kernel
def _outermost(caller: Int64, marked: Bool) -> Int64:  # pragma: no cover - compiled
    found = np.full(len(caller), -1, np.int64)
    for i in range(len(caller)):
        if caller[i] >= 0 and found[caller[i]] >= 0:
            found[i] = found[caller[i]]
        elif marked[i]:
            found[i] = i
    return found
