"""Number the ops of all ranks: one set of columns, and the maps from trace events to ops that the edge rules need."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from replay.core.columns import Int8, Int32, Int64
from replay.core.evidence import Grade
from replay.graph.calls import HANDING_OVER, CallKind
from replay.graph.collectives import Matched, Split
from replay.graph.device import DeviceOps, device_ops
from replay.graph.host import CallTiming, HostOps, host_ops
from replay.graph.lags import Measured
from replay.graph.launch_join import Launches
from replay.graph.link_shares import link_shares
from replay.graph.selection import RankStep
from replay.graph.syncs import StreamIndex, SyncWaits, sync_waits
from replay.graph.types import CommTable, OpKind
from replay.graph.waits import CallCosts, QueueWaits, queue_waits
from replay.trace import Trace

HOST_WORK = "host"  # name of host ops between calls
_PAIRWISE_MEMBERS = 8  # larger collectives meet in one op instead of an edge for every pair of members


@dataclass(frozen=True, slots=True)
class RankParts:
    """Everything the rules found on one rank, still in terms of trace events."""

    step: RankStep
    queue: QueueWaits
    syncs: SyncWaits
    streams: StreamIndex
    host: HostOps
    device: DeviceOps


def rank_parts(trace: Trace, launches: Launches, costs: CallCosts, step: RankStep) -> RankParts:
    """Apply the per-rank rules in the order in which they need each other."""
    queue = queue_waits(trace, launches, costs, step.rank)
    streams = StreamIndex(trace, launches, step)
    queued = frozenset(int(c) for c in queue.call[costs.blocked[queue.call]])
    syncs = sync_waits(trace, launches, costs, step, streams, queued)
    timing = {c: CallTiming(int(costs.entry_ns[c]), waits_first=True) for c in queued}
    timing |= _sync_timing(trace, costs, syncs)
    timing |= _handover_timing(trace, launches, costs, step)
    host = host_ops(trace, launches, step, timing)
    return RankParts(step, queue, syncs, streams, host, device_ops(trace, step))


def _sync_timing(trace: Trace, costs: CallCosts, syncs: SyncWaits) -> dict[int, CallTiming]:
    """Cost of the calls that waited: what the wait does not explain, and no more than the API usually costs."""
    waited: dict[int, int] = {}
    for call, source in zip(map(int, syncs.call), map(int, syncs.source), strict=True):
        waited[call] = max(waited.get(call, 0), trace.end_of(source) - int(trace.start_ns[call]))
    return {
        call: CallTiming(min(max(int(trace.dur_ns[call]) - wait, 0), int(costs.entry_ns[call])), waits_first=False)
        for call, wait in waited.items()
        if wait > 0
    }


def _handover_timing(trace: Trace, launches: Launches, costs: CallCosts, step: RankStep) -> dict[int, CallTiming]:
    """Calls that hand over a transfer go on beside it; those that took far longer than usual waited for its end."""
    call = launches.call[step.device]
    over: dict[int, int] = {}  # call → end of the last transfer in it
    for event, c in zip(step.device.tolist(), call.tolist(), strict=True):
        if c >= 0 and launches.call_kind[c] in HANDING_OVER:
            over[c] = max(over.get(c, 0), trace.end_of(event))
    timing = {}
    for c, end in over.items():
        handed, returned = int(costs.handed_over_ns[c]), trace.end_of(c)
        waited = costs.blocked[c] and end <= returned and launches.call_kind[c] == CallKind.ENQUEUE
        rest = returned - (max(end, handed) if waited else handed)
        timing[c] = CallTiming(handed - int(trace.start_ns[c]), waits_first=False, rest_ns=rest)
    return timing


@dataclass(slots=True)
class Numbered:
    """Ops of the step; times are ns from the step's begin, on the aligned clock."""

    measured: Measured
    duration_ns: Int64
    ready_ns: Int64
    lane: Int32
    rank: Int32
    kind: Int8
    name: Int32
    names: tuple[str, ...]
    event: Int64
    comm: Int32
    grade: Int8
    comms: CommTable
    begin_ns: int  # the step's begin on the trace's axis (aligned)
    end_ns: int  # the step's end, relative to begin
    host_base: dict[int, int] = field(default_factory=dict)  # rank → first host op
    first: dict[int, int] = field(default_factory=dict)  # device event → op to release
    last: dict[int, int] = field(default_factory=dict)  # device event → op that ends it
    call_op: dict[int, int] = field(default_factory=dict)
    after_call: dict[int, int] = field(default_factory=dict)
    meeting: dict[int, int] = field(default_factory=dict)  # match of a large collective → op where its members meet

    def __len__(self) -> int:
        return len(self.duration_ns)


def number(
    trace: Trace, parts: tuple[RankParts, ...], offsets: dict[int, int], matched: Matched, split: Split
) -> Numbered:
    """Concatenate host and device ops of every rank; collectives get their transfer time and their row."""
    begin = min(part.step.begin_ns + offsets[part.step.rank] for part in parts)
    columns = _Columns()
    row_of = {int(event): i for i, event in enumerate(matched.event)}
    maps: dict[str, dict[int, int]] = {
        key: {} for key in ("host_base", "first", "last", "call_op", "after_call", "meeting")
    }
    end = 0
    for part in parts:
        shift = offsets[part.step.rank] - begin
        base = columns.size
        maps["host_base"][part.step.rank] = base
        maps["call_op"] |= {call: base + op for call, op in part.host.call_op.items()}
        maps["after_call"] |= {call: base + op for call, op in part.host.after_call.items()}
        columns.add_host(part, shift, (row_of, split))
        base = columns.size
        maps["first"] |= {event: base + op for event, op in part.device.first.items()}
        maps["last"] |= {event: base + op for event, op in part.device.last.items()}
        columns.add_device(part, shift, (row_of, split))
        end = max(end, part.step.host_end_ns + shift, int(part.device.end_ns.max(initial=part.step.begin_ns)) + shift)
    for match, members in _large(matched, split).items():
        maps["meeting"][match] = columns.add_meeting(
            int(trace.rank[matched.event[members[0]]]),
            int(trace.lane[matched.event[members[0]]]),
            int(matched.start_ns[members].max()) - begin,
        )
    comms = CommTable(
        trace.collectives.kind[trace.comm[matched.event]],
        trace.collectives.group[trace.comm[matched.event]],
        trace.collectives.nbytes[trace.comm[matched.event]],
        matched.match,
        split.size.astype(np.int32),
        split.seen.astype(np.int32),
        split.low_ns,
        split.high_ns,
        link_shares(trace, matched.event),
    )
    return _numbered(trace, columns, comms, (begin, end), maps)


def _numbered(
    trace: Trace, columns: _Columns, comms: CommTable, bounds: tuple[int, int], maps: dict[str, dict[int, int]]
) -> Numbered:
    event = columns.column("event")
    name = np.where(event >= 0, trace.name[event] if len(trace) else 0, len(trace.names))
    return Numbered(
        Measured(columns.column("start"), columns.column("end")),
        columns.column("duration"),
        columns.column("ready"),
        columns.column("lane").astype(np.int32),
        columns.column("rank").astype(np.int32),
        columns.column("kind").astype(np.int8),
        name.astype(np.int32),
        (*trace.names, HOST_WORK),
        event,
        columns.column("comm").astype(np.int32),
        np.full(columns.size, Grade.MEASURED, np.int8),
        comms,
        begin_ns=bounds[0],
        end_ns=bounds[1],
        host_base=maps["host_base"],
        first=maps["first"],
        last=maps["last"],
        call_op=maps["call_op"],
        after_call=maps["after_call"],
        meeting=maps["meeting"],
    )


def _large(matched: Matched, split: Split) -> dict[int, Int64]:
    """Rows of the collectives whose members are so many that an edge for every pair would be too much."""
    rows = np.flatnonzero(split.rendezvous)
    order = rows[np.argsort(matched.match[rows], kind="stable")]
    keys, begin, count = np.unique(matched.match[order], return_index=True, return_counts=True)
    return {int(key): order[b : b + n] for key, b, n in zip(keys, begin, count, strict=True) if n > _PAIRWISE_MEMBERS}


class _Columns:
    """Growing columns, one array per rank and side."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: dict[str, list[Int64]] = {}

    def _add(
        self,
        rank: int,
        rows: tuple[dict[int, int], Split],
        event: Int64,
        kind: Int64,
        times: tuple[Int64, Int64, Int64],
        ready: Int64,
        lane: Int64,
    ) -> None:
        """Append ops; ``times`` is (start, end, duration). Transfers get their share of a collective's duration."""
        row_of, split = rows
        start, end, duration = times
        comm = np.array([row_of.get(int(e), -1) for e in event], np.int64)
        comm[~np.isin(kind, (OpKind.ARRIVAL, OpKind.TRANSFER))] = -1
        transfer = kind == OpKind.TRANSFER
        duration = duration.copy()
        duration[transfer] = np.minimum(split.transfer_ns[comm[transfer]], duration[transfer])
        columns = {
            "start": np.where(transfer, end - duration, start),
            "end": end,
            "duration": duration,
            "ready": ready,
            "lane": lane,
            "rank": np.full(len(event), rank),
            "kind": kind,
            "event": event,
            "comm": comm,
        }
        for name, column in columns.items():
            self._parts.setdefault(name, []).append(np.asarray(column, np.int64))
        self.size += len(event)

    def add_host(self, part: RankParts, shift: int, rows: tuple[dict[int, int], Split]) -> None:
        host = part.host
        event, kind = np.array(host.event, np.int64), np.array(host.kind, np.int64)
        start, end = np.array(host.start_ns, np.int64) + shift, np.array(host.end_ns, np.int64) + shift
        duration = np.array(host.duration_ns, np.int64)
        ready = np.full(len(event), part.step.begin_ns + shift)
        self._add(part.step.rank, rows, event, kind, (start, end, duration), ready, np.array(host.lane, np.int64))

    def add_device(self, part: RankParts, shift: int, rows: tuple[dict[int, int], Split]) -> None:
        device = part.device
        start, end = device.start_ns + shift, device.end_ns + shift
        ready = np.zeros(len(start), np.int64)
        times = (start, end, end - start)
        self._add(part.step.rank, rows, device.event, device.kind, times, ready, device.lane.astype(np.int64))

    def add_meeting(self, rank: int, lane: int, time_ns: int) -> int:
        """Append the zero-length op at which all members of a collective have arrived; returns its index."""
        row = {"start": time_ns, "end": time_ns, "duration": 0, "ready": 0, "lane": lane, "rank": rank}
        for name, value in (row | {"kind": int(OpKind.MARK), "event": -1, "comm": -1}).items():
            self._parts.setdefault(name, []).append(np.array([value], np.int64))
        self.size += 1
        return self.size - 1

    def column(self, name: str) -> Int64:
        """All rows of one column."""
        parts = self._parts.get(name, [])
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
