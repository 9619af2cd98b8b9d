"""Steps without a marker (R0): the period at which the sequence of device work repeats itself.

With names x_0 .. x_{n-1} of a rank's device work in order, the match of a period p is the share of i with
x_i = x_{i+p}. Steps match almost fully; layers inside a step match less, since what lies around them differs. The
period is the shortest of the best match; it counts only where at least three periods fit and nearly all matches.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.launch_join import Launches
from replay.trace import Trace

_LEAST_MATCH = 0.99
_SHORTEST = 8  # ops; a shorter loop is a kernel called in a row, not a step
_CANDIDATES = 64
_REPEATS = 3


def periodic_begins(trace: Trace, launches: Launches, rank: int) -> list[int]:
    """Begin of each period on the trace's axis, ns, and the end of the last; empty where nothing repeats.

    A period begins with the launch (or, without launches, the start) of the op that follows the longest usual pause.
    """
    device = np.flatnonzero((trace.rank == rank) & trace.is_device)
    call = launches.call[device]
    begin = np.where(call >= 0, trace.start_ns[call], trace.start_ns[device])
    order = np.lexsort((trace.start_ns[device], begin))
    device, begin = device[order], begin[order]
    period = find_period(trace.name[device].astype(np.int64))
    if period == 0:
        return []
    pause = np.diff(begin, prepend=begin[0])
    usual = [
        int(np.median(pause[offset::period][1:] if offset == 0 else pause[offset::period])) for offset in range(period)
    ]
    first = int(np.argmax(usual))
    begins = begin[first::period]
    whole = (len(device) - first) // period
    last = int(begins[whole]) if whole < len(begins) else int(trace.end_ns[device].max())
    return [*map(int, begins[:whole]), last] if whole >= 2 else []


def find_period(names: Int64) -> int:
    """Length of the repeating unit of a sequence of codes; 0 where there is none."""
    n = len(names)
    best, length = _LEAST_MATCH, 0
    for period in _candidates(names):
        match = float((names[period:] == names[:-period]).mean()) if _SHORTEST <= period <= n // _REPEATS else 0.0
        if match > best + 1e-3 or (match >= best and length == 0):
            best, length = match, period
    return length


def _candidates(names: Int64) -> list[int]:
    """Distances at which the rarest repeated names recur, in ascending order."""
    codes, counts = np.unique(names, return_counts=True)
    codes, counts = codes[counts >= _REPEATS], counts[counts >= _REPEATS]
    found: set[int] = set()
    for code in codes[np.argsort(counts, kind="stable")]:
        distances, often = np.unique(np.diff(np.flatnonzero(names == code)), return_counts=True)
        found.add(int(distances[np.argmax(often)]))
        if len(found) >= _CANDIDATES:
            break
    return sorted(found)
