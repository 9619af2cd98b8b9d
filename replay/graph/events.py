"""Stream-to-stream order: which device op waits for which, by recorded sync rows or by the order of calls (R4)."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.calls import CallKind
from replay.graph.selection import Launches, RankStep
from replay.graph.syncs import StreamIndex, call_by_correlation, sync_rows
from replay.trace import Trace


def stream_waits(
    trace: Trace, launches: Launches, step: RankStep, streams: StreamIndex
) -> tuple[Int64, Int64, Int64, int]:
    """(source device event, target device event, 1 recorded | 0 inferred, dropped) of every wait of one rank.

    Recorded: the sync row names the waiting stream and the event record's call; the source is the last op launched on
    the recorded stream before that call, the target the first op launched on the waiting stream after the wait call.
    Inferred: the target is the next op the waiting thread launches, the source the op of another stream, launched
    before the wait, that ended last before the target began. One without any consistent source is dropped.
    """
    rows = sync_rows(trace, step.rank)
    by_id = call_by_correlation(trace, step.rank)
    next_launch = _next_launch_of_thread(trace, launches, step)
    found: list[tuple[int, int, int]] = []
    dropped = 0
    calls = np.concatenate((step.early, step.calls))
    for call in calls[launches.call_kind[calls] == CallKind.STREAM_WAIT]:
        row = rows.get(int(trace.correlation[call]), -1)
        if row >= 0 and int(trace.wait_on_record[row]) in by_id:
            pair = _recorded(trace, int(call), row, by_id[int(trace.wait_on_record[row])], streams)
            if pair is not None:
                found.append((*pair, 1))
            continue
        target = next_launch.get(int(call))
        if target is None:
            continue
        source = _inferred_source(trace, int(trace.start_ns[call]), target, streams)
        if source is None:
            dropped += 1
        else:
            found.append((source, target, 0))
    columns = np.array(found, np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2], dropped


def _recorded(trace: Trace, call: int, row: int, record: int, streams: StreamIndex) -> tuple[int, int] | None:
    waiting, recorded = streams.lane(int(trace.stream[row])), streams.lane(int(trace.wait_on_stream[row]))
    if waiting is None or recorded is None:
        return None
    source = streams.last_before(recorded, int(trace.start_ns[record]))
    target = streams.next_after(waiting, int(trace.start_ns[call]))
    return None if source is None or target is None or source == target else (source, target)


def _inferred_source(trace: Trace, wait_ns: int, target: int, streams: StreamIndex) -> int | None:
    own, begin = int(trace.lane[target]), int(trace.start_ns[target])
    candidates = [streams.last_before(lane, wait_ns) for lane in streams.lanes if lane != own]
    possible = [c for c in candidates if c is not None and trace.end_ns[c] <= begin]
    return max(possible, key=lambda c: int(trace.end_ns[c])) if possible else None


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
