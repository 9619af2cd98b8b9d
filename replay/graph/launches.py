"""Launch edges: device work starts no earlier than its launch call plus the launch latency.

The latency is one number per trace and kind of launch, learned over the whole trace from work whose device was idle
when it was launched (an idle stream alone may still wait for another one). A device that is always behind shows no such
work; then the smallest delay seen is an upper bound, and what is known of launch latencies in general (a few
microseconds on every accelerator) caps it. Transfers that are handed to other threads of the host begin after the
hand-over (:mod:`replay.graph.enqueues`), with a latency of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from replay.core.columns import Bool, Int8, Int64
from replay.core.units import NS_PER_US
from replay.graph.calls import HANDING_OVER, CallKind
from replay.graph.edge_list import EdgeList
from replay.graph.lags import typical_delay
from replay.graph.launch_join import Launches, was_idle
from replay.graph.number import Numbered, RankParts
from replay.graph.staging import staging_ns
from replay.graph.types import Rule
from replay.graph.waits import CallCosts
from replay.trace import Trace

_WAYS = (CallKind.GRAPH_LAUNCH,)  # of launching, with latencies of their own
_SAMPLES = 3
_NEVER_IDLE_NS = 10 * NS_PER_US  # assumed latency where every launch met a busy stream


def launch_latencies_ns(trace: Trace, launches: Launches) -> dict[int, int]:
    """Time from the start of a launch call to the start of its work on an idle device, ns; 0 without any launch.

    One for each of ``_WAYS``, and one under LAUNCH for all other calls.
    """
    device = np.flatnonzero(trace.is_device & (launches.call >= 0))
    device = device[np.lexsort((trace.start_ns[device], trace.rank[device]))]
    call = launches.call[device]
    delay = trace.start_ns[device] - trace.start_ns[call]
    first = (delay >= 0) & np.append(True, call[1:] != call[:-1])[: len(call)]
    way, idle = _way(launches.call_kind[call]), was_idle(trace, device, call)
    return {int(w): _latency_ns(delay[first & (way == w)], idle[first & (way == w)]) for w in (CallKind.LAUNCH, *_WAYS)}


def _latency_ns(delay_ns: Int64, idle: Bool) -> int:
    if idle.sum() >= _SAMPLES:
        return typical_delay(delay_ns[idle])
    return min(int(delay_ns.min()), _NEVER_IDLE_NS) if len(delay_ns) else 0


def _way(call_kind: Int8) -> Int8:
    return np.where(np.isin(call_kind, _WAYS), call_kind, CallKind.LAUNCH).astype(np.int8)


def launch_edges(
    trace: Trace, launches: Launches, costs: CallCosts, part: RankParts, ops: Numbered, latency_ns: Mapping[int, int]
) -> list[EdgeList]:
    """From each launch call to its work; of a graph launch only to the node that starts first.

    Work is submitted one latency after the start of an ordinary call. A call that took far longer for its own reasons
    (loading a module) submits at its end, so its edge starts there, less the usual cost of the call. A copy that the
    driver stages keeps its own delay.
    """
    events = part.step.device
    call = launches.call[events]
    source = np.array([ops.call_op.get(c, -1) for c in call.tolist()], np.int64)
    target = np.array([ops.first[e] for e in events.tolist()], np.int64)
    graph = (launches.call_kind[call] == CallKind.GRAPH_LAUNCH) & (call >= 0)
    first = np.zeros(len(call), np.bool_)
    first[np.unique(call, return_index=True)[1]] = True
    slow = costs.blocked[call] & (ops.duration_ns[source] > costs.entry_ns[call])
    handed = np.isin(launches.call_kind[call], HANDING_OVER) & (call >= 0)
    slow &= ~handed  # these go on after they have handed over
    lag = np.array([latency_ns[way] for way in _way(launches.call_kind[call]).tolist()], np.int64)
    lag -= np.where(slow, costs.entry_ns[call], 0)
    staged = staging_ns(trace, launches, part)
    slow &= staged < 0
    lag = np.where(staged >= 0, staged, np.where(handed, _hand_over_ns(launches.call_kind[call], costs), lag))
    has_edge = (source >= 0) & (~graph | first)
    return [
        EdgeList.of(Rule.LAUNCH, source[mine], target[mine], lag_ns=lag[mine], from_start=from_start)
        for mine, from_start in ((has_edge & ~(slow | handed), True), (has_edge & (slow | handed), False))
    ]


def _hand_over_ns(call_kind: Int8, costs: CallCosts) -> Int64:
    """What is posted begins at once, what is enqueued when another thread has woken up."""
    return np.where(call_kind == CallKind.ENQUEUE, costs.hand_over_ns, 0)
