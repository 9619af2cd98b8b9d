"""Calls that hand transfers to other threads of the host (``c10d::`` operators without a device), and when they do.

Such a call works until the hand-over (Gloo copies some operands first) and does the rest beside the transfer: the
thread that it wakes may even take its core for a while. The hand-over is one latency before the transfer begins, or the
call's end if that comes first. What a thread posts itself (sends, receives) begins at once.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.calls import HANDING_OVER, CallKind
from replay.graph.lags import LONGEST_NS, typical_delay
from replay.graph.launch_join import Launches, was_idle
from replay.trace import Trace


def hand_overs(trace: Trace, launches: Launches) -> tuple[Int64, int]:
    """Per event, when the call had handed over its first transfer (its end where it hands over none); the latency."""
    device = np.flatnonzero(trace.is_device & (launches.call >= 0))
    device = device[np.isin(launches.call_kind[launches.call[device]], HANDING_OVER)]
    device = device[np.lexsort((trace.start_ns[device], trace.rank[device]))]
    call, first = np.unique(launches.call[device], return_index=True)
    begun = trace.start_ns[device[first]]
    enqueued = launches.call_kind[call] == CallKind.ENQUEUE
    alone = was_idle(trace, device, launches.call[device])[first] & enqueued
    latency = _latency_ns(begun[alone] - trace.start_ns[call[alone]], begun[alone] - trace.end_ns[call[alone]])
    handed_over = trace.end_ns.copy()
    handed_over[call] = np.clip(begun - np.where(enqueued, latency, 0), trace.start_ns[call], trace.end_ns[call])
    return handed_over, latency


def _latency_ns(after_begin: Int64, after_end: Int64) -> int:
    """One number per trace (R5), from calls beside which nothing else was under way.

    The typical time by which transfers follow calls that returned before; no more than one ever took from the begin.
    """
    return min(typical_delay(after_end[after_end >= 0]), int(np.maximum(after_begin, 0).min(initial=LONGEST_NS)))
