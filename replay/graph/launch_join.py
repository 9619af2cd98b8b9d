"""Which call launched which device work: the join that every later rule rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int8, Int64
from replay.graph.calls import HANDING_OVER, CallKind, kinds_of
from replay.trace import ON_HOST, EventKind, Trace


@dataclass(frozen=True, slots=True)
class Launches:
    """Join of device work and runtime calls over the whole trace; columns have one row per event."""

    call: Int64  # device event → event index of its launch call, -1 none
    call_kind: Int8  # CallKind of runtime events, NONE for others
    noticed_ns: Int64  # when a host thread had waited for the send or receive it posted; -1 for all other events


def join_launches(trace: Trace) -> Launches:
    """Join device events to runtime calls by (rank, correlation); the first call with that id wins."""
    by_name = kinds_of(trace.names) if trace.names else np.zeros(0, np.int8)
    runtime = trace.kind == EventKind.RUNTIME
    call_kind = np.where(runtime, by_name[trace.name] if len(trace) else 0, CallKind.NONE).astype(np.int8)
    call = np.full(len(trace), -1, np.int64)
    has_id = trace.correlation > 0
    for rank in trace.ranks:
        here = (trace.rank == rank) & has_id
        rows = np.flatnonzero(here & runtime)
        device = np.flatnonzero(here & trace.is_device)
        if not len(rows) or not len(device):
            continue
        rows = rows[np.argsort(trace.correlation[rows], kind="stable")]
        ids = trace.correlation[rows]
        at = np.searchsorted(ids, trace.correlation[device])
        found = (at < len(ids)) & (ids[np.minimum(at, len(ids) - 1)] == trace.correlation[device])
        call[device[found]] = rows[at[found]]
    launching = np.unique(call[call >= 0])
    plain = launching[call_kind[launching] == CallKind.NONE]
    call_kind[plain] = CallKind.LAUNCH
    on_host = np.array([lane.device == ON_HOST for lane in trace.lanes] or [False], np.bool_)
    to_device = np.unique(call[(call >= 0) & ~on_host[trace.lane]])  # no transfer that other threads carry out
    call_kind[to_device[np.isin(call_kind[to_device], HANDING_OVER)]] = CallKind.LAUNCH
    posted = (call >= 0) & (call_kind[call] == CallKind.POST)
    return Launches(call, call_kind, np.where(posted, trace.end_ns, -1))


def was_idle(trace: Trace, device: Int64, call: Int64) -> Bool:
    """Whether the rank's device had finished everything before when the launch began (device sorted by rank, start)."""
    idle = np.ones(len(device), np.bool_)
    for rank in np.unique(trace.rank[device]):
        own = np.flatnonzero(trace.rank[device] == rank)
        busy_until = np.maximum.accumulate(trace.end_ns[device[own]])
        idle[own[1:]] = busy_until[:-1] <= trace.start_ns[call[own[1:]]]
    return idle
