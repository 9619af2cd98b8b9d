"""R2: what a host call costs by itself, and what it waited for.

A blocked call is its entry cost plus a wait edge; copying its duration would make every baseline perfect and every
what-if wrong. A call counts as blocked when its duration is far above the low quantile of its API's durations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import NS_PER_US
from replay.graph.calls import SYNCS, CallKind
from replay.graph.enqueues import hand_overs
from replay.graph.launch_join import Launches
from replay.trace import Trace

_LOW = 0.05  # quantile of an API's durations that no wait has touched, even where most of its calls are blocked
_FAR_ABOVE = 4  # times that quantile
_AT_LEAST_NS = 10 * NS_PER_US  # and never less than this: shorter delays are scheduling noise, not a wait
_MIN_DEPTH = 64  # fewer launches in flight than this never fill a launch queue
_LAUNCHES = (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.COPY)


@dataclass(frozen=True, slots=True)
class CallCosts:
    """Per event of the trace; meaningful for interaction calls only."""

    entry_ns: Int64  # the call's own cost when it has nothing to wait for
    blocked: Bool
    handed_over_ns: Int64  # when the call had handed over its transfer; its end where it hands over none
    hand_over_ns: int  # from there to the begin of the transfer on an idle stream (one number per trace)


def call_costs(trace: Trace, launches: Launches) -> CallCosts:
    """Typical cost of every API (median of its unblocked calls) and which calls took far longer."""
    entry = trace.dur_ns.copy()
    blocked = np.zeros(len(trace), np.bool_)
    rows = np.flatnonzero(launches.call_kind != CallKind.NONE)
    for code in np.unique(trace.name[rows]):
        same = rows[trace.name[rows] == code]
        duration = trace.dur_ns[same]
        low = float(np.quantile(duration, _LOW))
        far = duration > max(_FAR_ABOVE * low, low + _AT_LEAST_NS)
        typical = float(np.median(duration[~far]))
        blocked[same] = far
        entry[same[far]] = int(typical)
    sync = np.isin(launches.call_kind, SYNCS)
    blocked[sync & (trace.dur_ns > _AT_LEAST_NS)] = True
    entry[sync & blocked] = np.minimum(entry[sync & blocked], _AT_LEAST_NS)
    return CallCosts(entry, blocked, *hand_overs(trace, launches))


@dataclass(frozen=True, slots=True)
class QueueWaits:
    """Launch calls and the device events whose completion makes room for them; -1 depth: never seen full."""

    call: Int64
    released_by: Int64
    depth: dict[int, int]  # lane of the stream → launches it holds


def queue_waits(trace: Trace, launches: Launches, costs: CallCosts, rank: int) -> QueueWaits:
    """Learn each stream's launch queue: the number of launches in flight at the end of blocked calls, when they agree.

    In flight at time t = launch calls of the stream begun by t minus those whose device work has completed by t. A
    blocked launch was released by the completion that its own count points at (graph launches take several slots, so
    the count varies a little); every other launch waits for the one ``depth`` before it.
    """
    call: list[Int64] = []
    released_by: list[Int64] = []
    depth: dict[int, int] = {}
    device = np.flatnonzero((trace.rank == rank) & trace.is_device & (launches.call >= 0))
    for lane in np.unique(trace.lane[device]):
        calls, last = _launches_of_stream(trace, launches, device[trace.lane[device] == lane])
        finished = trace.end_ns[last]
        blocked = np.flatnonzero(costs.blocked[calls] & np.isin(launches.call_kind[calls], _LAUNCHES))
        if len(blocked) < 3:
            continue
        in_flight = blocked + 1 - np.searchsorted(np.sort(finished), trace.end_ns[calls[blocked]], side="right")
        full = in_flight >= max(_MIN_DEPTH, int(0.9 * in_flight.max()))
        if full.sum() < 3 or np.subtract(*np.quantile(in_flight[full], [0.9, 0.1])) > 0.05 * in_flight.max():
            continue
        typical = int(np.median(in_flight[full]))
        held = np.full(len(calls), typical)
        held[blocked[full]] = in_flight[full]
        source = np.arange(len(calls)) - held
        waits = np.flatnonzero((source >= 0) & np.isin(launches.call_kind[calls], _LAUNCHES))
        call.append(calls[waits])
        released_by.append(last[source[waits]])
        depth[int(lane)] = typical
    empty = np.zeros(0, np.int64)
    return QueueWaits(
        np.concatenate(call) if call else empty, np.concatenate(released_by) if released_by else empty, depth
    )


def _launches_of_stream(trace: Trace, launches: Launches, device: Int64) -> tuple[Int64, Int64]:
    """Launch calls of one stream in order, and for each the last device event it launched."""
    order = np.lexsort((trace.end_ns[device], launches.call[device]))
    device = device[order]
    calls = launches.call[device]
    last = np.flatnonzero(np.append(calls[1:] != calls[:-1], True))
    calls, device = calls[last], device[last]
    in_time = np.argsort(trace.start_ns[calls], kind="stable")
    return calls[in_time], device[in_time]
