"""Sends and receives that a host thread posts end, in the trace, when it has waited for them, however late that is.

A thread that was busy until just before the row ends, or that waited for several at once, found the transfer done; when
that was, only the other side or equal transfers can tell. R3: a transfer takes no longer than from the arrival of both
sides to the end of either row, and one that nobody waited for takes what transfers of its size take.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import NS_PER_US
from replay.graph.calls import CallKind
from replay.graph.collectives import Matched, match
from replay.graph.lags import typical_delay
from replay.graph.launch_join import Launches
from replay.trace import Trace

_PROMPT_NS = 50 * NS_PER_US  # a thread that waited for longer was there when the transfer ended


def with_prompt_ends(trace: Trace, launches: Launches) -> Trace:
    """``trace`` with posted transfers cut to when they were done."""
    posted = (launches.call >= 0) & (launches.call_kind[launches.call] == CallKind.POST)
    if not posted.any():
        return trace
    pairs = match(trace, np.flatnonzero(posted), {})
    both_there = np.full(int(pairs.match.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(both_there, pairs.match, pairs.start_ns)
    arrival = both_there[pairs.match]
    took = pairs.end_ns - arrival
    shortest = np.full(len(both_there), np.iinfo(np.int64).max)
    np.minimum.at(shortest, pairs.match, np.maximum(took, 0))
    seen = _seen(trace, launches, pairs, arrival) & (took <= 2 * shortest[pairs.match] + _PROMPT_NS)
    best = np.full(len(both_there), np.iinfo(np.int64).max)
    np.minimum.at(best, pairs.match[seen], np.maximum(took[seen], 0))
    estimate = np.minimum(best[pairs.match], _usual(trace, pairs, took, seen))
    duration = trace.dur_ns.copy()
    late = ~seen & (took > estimate)
    duration[pairs.event[late]] = arrival[late] + estimate[late] - pairs.start_ns[late]
    return replace(trace, dur_ns=duration)


def _seen(trace: Trace, launches: Launches, pairs: Matched, arrival_ns: Int64) -> Bool:
    """Rows whose thread was waiting at their end: it had done nothing since both sides were there, or for long."""
    seen = np.zeros(len(pairs.event), np.bool_)
    lane = trace.lane[launches.call[pairs.event]]
    for thread in np.unique(lane):
        own = np.flatnonzero(trace.lane == thread)
        acts = np.sort(np.concatenate([trace.start_ns[own], trace.end_ns[own]]))
        mine = lane == thread
        at = np.searchsorted(acts, pairs.end_ns[mine], side="left") - 1
        last = acts[np.maximum(at, 0)]
        seen[mine] = (last <= arrival_ns[mine]) | (pairs.end_ns[mine] - last >= _PROMPT_NS)
    return seen


def _usual(trace: Trace, pairs: Matched, took_ns: Int64, seen: Bool) -> Int64:
    """Per row: what transfers of its size took where somebody waited for them, else the shortest of them."""
    rows: dict[int, list[int]] = defaultdict(list)
    for row, nbytes in enumerate(trace.collectives.nbytes[trace.comm[pairs.event]].tolist()):
        rows[nbytes].append(row)
    usual = took_ns.copy()
    for same in rows.values():
        at = np.array(same)
        known = took_ns[at[seen[at] & (took_ns[at] > 0)]]
        positive = took_ns[at][took_ns[at] > 0]
        usual[at] = typical_delay(known) if len(known) else int(positive.min(initial=0))
    return usual
