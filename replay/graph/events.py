"""Stream-to-stream order: which device op waits for which, by recorded sync rows or by the order of calls (R4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.calls import CallKind
from replay.graph.device_waits import device_waits
from replay.graph.launch_join import Launches
from replay.graph.selection import RankStep
from replay.graph.syncs import StreamIndex, record_calls, sync_rows
from replay.trace import Trace


@dataclass(frozen=True, slots=True)
class StreamWaits:
    """One row per (device event, device event that waits for it)."""

    source: Int64
    target: Int64
    recorded: Bool
    dropped: int  # inferred waits without a source that fits the measured order


def stream_waits(trace: Trace, launches: Launches, step: RankStep, streams: StreamIndex) -> StreamWaits:
    """All stream-to-stream waits of one rank.

    Recorded: the sync row names the waiting stream and the event record's call; the source is the last op launched on
    the recorded stream before that call, together with whatever that stream had been told to wait for since that op;
    the target is the first op launched on the waiting stream after the wait call. Inferred: the target is the next op
    the waiting thread launches, the source the op of another stream, launched before the wait, that ended last before
    the target began. One without any consistent source is dropped. Waits that show as tasks of a stream are taken
    from there (:mod:`replay.graph.device_waits`).
    """
    by_task = device_waits(trace, step)
    next_launch = _next_launch_of_thread(trace, launches, step)
    recorded = _RecordedWaits(trace, launches, step, streams)
    found = [(*pair, False) for pair in zip(by_task.source.tolist(), by_task.target.tolist(), strict=True)]
    dropped = by_task.dropped
    calls = np.concatenate((step.early, step.calls))
    for call in map(int, calls[launches.call_kind[calls] == CallKind.STREAM_WAIT]):
        if int(trace.correlation[call]) in by_task.correlations:
            continue
        if recorded.knows(call):
            found += [(source, target, True) for source, target in recorded.pairs(call)]
            continue
        target = next_launch.get(call)
        if target is None:
            continue
        source = _inferred_source(trace, int(trace.start_ns[call]), target, streams)
        if source is None:
            dropped += 1
        else:
            found.append((source, target, False))
    columns = np.array(found, np.int64).reshape(-1, 3)
    return StreamWaits(columns[:, 0], columns[:, 1], columns[:, 2].astype(np.bool_), dropped)


class _RecordedWaits:
    """Waits named by ``cuda_sync`` rows, met in order of time; remembers what each stream was told to wait for."""

    def __init__(self, trace: Trace, launches: Launches, step: RankStep, streams: StreamIndex) -> None:
        self._trace, self._launches, self._streams = trace, launches, streams
        self._rows = sync_rows(trace, step.rank)
        self._calls = record_calls(trace, launches, step.rank)
        self._told: dict[int, list[tuple[int, list[int]]]] = {}  # lane → (time of the wait call, its sources)

    def _row(self, call: int) -> int:
        return self._rows.get(int(self._trace.correlation[call]), -1)

    def knows(self, call: int) -> bool:
        """True when the trace says which record the wait call waits for."""
        row = self._row(call)
        return row >= 0 and int(self._trace.wait_on_record[row]) in self._calls

    def pairs(self, call: int) -> list[tuple[int, int]]:
        """(source, target) events of one wait call; empty when either stream ran nothing."""
        trace, streams, row = self._trace, self._streams, self._row(call)
        waiting, recorded = streams.lane(int(trace.stream[row])), streams.lane(int(trace.wait_on_stream[row]))
        if waiting is None or recorded is None or waiting == recorded:
            return []
        sources = self._before(recorded, int(trace.start_ns[self._calls[int(trace.wait_on_record[row])]]))
        begin = int(trace.start_ns[call])
        self._told.setdefault(waiting, []).append((begin, sources))
        target = streams.next_after(waiting, begin)
        return [(source, target) for source in sources if target is not None and source != target]

    def _before(self, lane: int, time_ns: int) -> list[int]:
        """Last op launched on ``lane`` before a record, and what the stream has been told to wait for since."""
        last = self._streams.last_before(lane, time_ns)
        launched = -1
        if last is not None and self._launches.call[last] >= 0:
            launched = int(self._trace.start_ns[self._launches.call[last]])
        inherited = [s for told, sources in self._told.get(lane, []) if launched <= told < time_ns for s in sources]
        return list(dict.fromkeys([*([last] if last is not None else []), *inherited]))


def _inferred_source(trace: Trace, wait_ns: int, target: int, streams: StreamIndex) -> int | None:
    own, begin = int(trace.lane[target]), int(trace.start_ns[target])
    candidates = [streams.last_before(lane, wait_ns) for lane in streams.lanes if lane != own]
    possible = [c for c in candidates if c is not None and trace.end_of(c) <= begin]
    return max(possible, key=trace.end_of) if possible else None


def _next_launch_of_thread(trace: Trace, launches: Launches, step: RankStep) -> dict[int, int]:
    """Wait call → first device event that its thread launches after it."""
    first_of: dict[int, int] = {}
    for event in step.device:
        first_of.setdefault(int(launches.call[event]), int(event))
    first_of.pop(-1, None)
    upcoming: dict[int, int] = {}
    result: dict[int, int] = {}
    for call in map(int, np.concatenate((step.early, step.calls))[::-1]):
        thread = int(trace.lane[call])
        if call in first_of:
            upcoming[thread] = first_of[call]
        elif launches.call_kind[call] == CallKind.STREAM_WAIT and thread in upcoming:
            result[call] = upcoming[thread]
    return result
