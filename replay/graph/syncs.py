"""Host syncs: which device work a blocking call waits for (R2, R4).

Recorded ``cuda_sync`` rows name the stream or the event; without them the API's meaning decides: a device sync waits
for the last work of every stream, a pageable copy for itself, a stream sync for the stream the thread used last. What
was measured has the last word: an inferred source that ended after the call returned is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import NS_PER_US
from replay.graph.calls import SYNCS, CallKind
from replay.graph.launch_join import Launches
from replay.graph.selection import RankStep
from replay.graph.waits import CallCosts
from replay.trace import EventKind, Trace

_MAY_BLOCK = (*SYNCS, CallKind.COPY, CallKind.ALLOC)
CLOCK_TOLERANCE_NS = 5 * NS_PER_US  # host and device clocks of one file agree to a few microseconds


@dataclass(frozen=True, slots=True)
class SyncWaits:
    """One row per (call, device event it waits for); a call may wait for several streams."""

    call: Int64
    source: Int64
    recorded: Bool
    dropped: int  # inferred sources that contradicted the measured order


class StreamIndex:
    """Device events of one rank by stream, in order of launch: "the last work put on stream s before time t"."""

    def __init__(self, trace: Trace, launches: Launches, step: RankStep) -> None:
        call = launches.call[step.device]
        when = np.where(call >= 0, trace.start_ns[np.maximum(call, 0)], np.iinfo(np.int64).min)
        self._trace, self._call = trace, launches.call
        self._streams: dict[int, tuple[Int64, Int64]] = {}
        for lane in np.unique(trace.lane[step.device]):
            mine = np.flatnonzero(trace.lane[step.device] == lane)
            mine = mine[np.argsort(trace.start_ns[step.device[mine]], kind="stable")]
            # a stream is first in, first out: work without a known launch was launched no earlier than what ran before
            self._streams[int(lane)] = (np.maximum.accumulate(when[mine]), step.device[mine])
        self._lane_of_stream = {trace.lanes[lane].stream: lane for lane in self._streams}

    def lane(self, stream: int) -> int | None:
        """Lane of a stream id, None when the stream ran nothing in this step."""
        return self._lane_of_stream.get(stream)

    def last_before(self, lane: int, time_ns: int, over_by_ns: int | None = None) -> int | None:
        """Device event launched last on ``lane`` before ``time_ns``.

        Work without a known launch counts as launched before then only if it was over by ``over_by_ns``.
        """
        when, events = self._streams[lane]
        at = int(np.searchsorted(when, time_ns, side="left")) - 1
        if over_by_ns is not None:
            while at >= 0 and self._call[events[at]] < 0 and self._trace.end_of(int(events[at])) > over_by_ns:
                at -= 1
        return int(events[at]) if at >= 0 else None

    def next_after(self, lane: int, time_ns: int) -> int | None:
        """Device event launched first on ``lane`` at or after ``time_ns``."""
        when, events = self._streams[lane]
        at = int(np.searchsorted(when, time_ns, side="left"))
        return int(events[at]) if at < len(events) else None

    @property
    def lanes(self) -> tuple[int, ...]:
        """Lanes that ran something."""
        return tuple(self._streams)


def sync_rows(trace: Trace, rank: int) -> dict[int, int]:
    """Correlation → event index of the recorded sync rows of a rank."""
    rows = np.flatnonzero((trace.kind == EventKind.SYNC) & (trace.rank == rank) & (trace.correlation > 0))
    return {int(trace.correlation[row]): int(row) for row in rows}


def record_calls(trace: Trace, launches: Launches, rank: int) -> dict[int, int]:
    """Correlation → event index of the event-record calls of a rank."""
    records = (launches.call_kind == CallKind.EVENT_RECORD) & (trace.rank == rank) & (trace.correlation > 0)
    rows = np.flatnonzero(records)
    return {int(trace.correlation[row]): int(row) for row in rows}


def sync_waits(
    trace: Trace, launches: Launches, costs: CallCosts, step: RankStep, streams: StreamIndex, queued: frozenset[int]
) -> SyncWaits:
    """What every blocking call of one rank waits for; ``queued`` calls wait for room in the launch queue instead."""
    recorded = sync_rows(trace, step.rank)
    records = record_calls(trace, launches, step.rank)
    copies = _own_copy(launches, step)
    last_lane = _last_lane_of_thread(trace, launches, step)
    rows: list[tuple[int, int, bool]] = []
    dropped = 0
    for call in map(int, step.calls[np.isin(launches.call_kind[step.calls], _MAY_BLOCK)]):
        kind = int(launches.call_kind[call])
        row = recorded.get(int(trace.correlation[call]), -1)
        if kind == CallKind.COPY and call not in queued:
            found, sure = _copy_sources(trace, costs, call, copies.get(call)), True
        elif kind == CallKind.SYNC_DEVICE or (kind == CallKind.ALLOC and costs.blocked[call]):
            over = trace.end_of(call) + CLOCK_TOLERANCE_NS
            found = [streams.last_before(lane, int(trace.start_ns[call]), over) for lane in streams.lanes]
            sure = kind == CallKind.SYNC_DEVICE
        elif kind in (CallKind.SYNC_STREAM, CallKind.SYNC_EVENT):
            found, sure = _stream_sources(trace, call, row, streams, records, last_lane.get(call))
        else:
            continue
        for source in found:
            if source is None:
                continue
            if not sure and _outlasts(trace, source, call):
                dropped += 1
                continue
            rows.append((call, source, sure))
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return SyncWaits(columns[:, 0], columns[:, 1], columns[:, 2].astype(np.bool_), dropped)


def _own_copy(launches: Launches, step: RankStep) -> dict[int, int]:
    """Launch call → the device event it launched (the last one)."""
    return {int(launches.call[event]): int(event) for event in step.device if launches.call[event] >= 0}


def _copy_sources(trace: Trace, costs: CallCosts, call: int, copy: int | None) -> list[int | None]:
    """A copy blocks its caller when the host side is pageable, or when it was seen to."""
    if copy is None or trace.kind[copy] != EventKind.MEMCPY or _outlasts(trace, copy, call):
        return []
    pageable = "pageable" in trace.name_of(copy).lower()
    return [copy] if pageable or costs.blocked[call] else []


def _outlasts(trace: Trace, work: int, call: int) -> bool:
    return trace.end_of(work) > trace.end_of(call) + CLOCK_TOLERANCE_NS


def _stream_sources(
    trace: Trace, call: int, row: int, streams: StreamIndex, records: dict[int, int], thread_lane: int | None
) -> tuple[list[int | None], bool]:
    """Source of a stream or event sync: the recorded stream or event, else the stream its thread used last."""
    start = int(trace.start_ns[call])
    if row >= 0:
        record = records.get(int(trace.wait_on_record[row]))
        stream = int(trace.wait_on_stream[row]) if record is not None else int(trace.stream[row])
        before = int(trace.start_ns[record]) if record is not None else start
        lane = streams.lane(stream)
        return ([streams.last_before(lane, before)] if lane is not None else []), True
    end = trace.end_of(call)
    candidates = [streams.last_before(lane, start, end + CLOCK_TOLERANCE_NS) for lane in streams.lanes]
    waited = [c for c in candidates if c is not None and start < trace.end_of(c) <= end + CLOCK_TOLERANCE_NS]
    if waited:
        return [max(waited, key=trace.end_of)], False
    return ([streams.last_before(thread_lane, start)] if thread_lane is not None else []), False


def _last_lane_of_thread(trace: Trace, launches: Launches, step: RankStep) -> dict[int, int]:
    """Sync call → lane that its thread launched to last before it."""
    lane_of_call = {int(launches.call[e]): int(trace.lane[e]) for e in step.device if launches.call[e] >= 0}
    latest: dict[int, int] = {}
    result: dict[int, int] = {}
    for call in map(int, step.calls):
        thread = int(trace.lane[call])
        if call in lane_of_call:
            latest[thread] = lane_of_call[call]
        elif thread in latest:
            result[call] = latest[thread]
    return result
