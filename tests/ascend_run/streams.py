"""Tasks of a rank's streams: the kernels as measured, and the event records and waits between them.

A stream is first in, first out: a record fires when everything before it is done, a wait lasts until its record has
fired. A collective first waits until its last member has come, then moves data.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.ascend_run.recorded import Group, Rank, Row
from tests.ascend_run.words import COLLECTIVES, EVENT_CALLS, KERNELS, Kernel

_RECORD_NS = 20
_LAUNCH, _RECORD, _WAIT = "emuLaunchKernel", "cudaEventRecord", "cudaStreamWaitEvent"


@dataclass(frozen=True, slots=True)
class Exchange:
    """What makes a task a collective."""

    operator: str  # as HCCL names it: kind, end of the communicator's id, count since profiling began, iteration
    group: Group
    moves: int  # when its data begin to move
    count: int  # elements as HCCL's interface counts them: those sent, of a reduce-scatter those received
    own: int  # the rank's number in the group
    partner: int  # that of the next member: of two, the other one


class Task(NamedTuple):
    """One task of a stream and the call that asked for it."""

    stream: int
    start: int
    end: int
    kernel: Kernel
    call: Row
    args: dict[str, Any]
    exchange: Exchange | None = None

    @property
    def connection(self) -> int:
        """Joins task and call."""
        return int(self.call.args["correlation"])


Latest = dict[tuple[object, ...], int]


def last_arrivals(ranks: list[Rank]) -> Latest:
    """When the last member of every collective of the recording began."""
    latest: Latest = defaultdict(int)
    for rank in ranks:
        for row in rank.kernels.values():
            if "Collective name" in row.args:
                latest[_key(rank, row)] = max(latest[_key(rank, row)], row.start)
    return latest


def tasks_of(rank: Rank, latest: Latest) -> list[Task]:
    """All tasks, in the order in which the host asked for them."""
    free: dict[int, int] = defaultdict(int)  # when each stream is done with what it has
    fired: dict[int, int] = {}
    streams = {wait.args.get("wait_on_cuda_event_record_corr_id"): wait.args for wait in rank.waits.values()}
    counters: Counter[str] = Counter()
    found: list[Task] = []
    for call in rank.calls:
        number = call.args["correlation"]
        if call.name == _LAUNCH and number in rank.kernels:
            row = rank.kernels[number]
            exchange = _exchange(rank, row, latest, counters) if "Collective name" in row.args else None
            kernel = COLLECTIVES[row.args["Collective name"]] if exchange else KERNELS[row.name]
            free[row.tid] = row.end
            found.append(Task(row.tid, row.start, row.end, kernel, call, row.args, exchange))
        elif call.name == _RECORD and number in streams:
            stream = streams[number]["wait_on_stream"]
            start = max(free[stream], call.end)
            fired[number] = start + _RECORD_NS
            found.append(Task(stream, start, fired[number], EVENT_CALLS["record"], call, {}))
        elif call.name == _WAIT:
            args = rank.waits[number].args
            start = max(free[args["stream"]], call.end)
            end = max(start, fired.get(args["wait_on_cuda_event_record_corr_id"], 0))
            free[args["stream"]] = end
            found.append(Task(args["stream"], start, end, EVENT_CALLS["wait"], call, {}))
    return found


def identity(group: Group) -> str:
    """Id of a communicator, which all its members know: twenty digits."""
    return str(10**19 + zlib.crc32(f"{group.description} {group.ranks}".encode()))


def _exchange(rank: Rank, row: Row, latest: Latest, counters: Counter[str]) -> Exchange:
    args, group = row.args, _communicator(rank, row)
    own = group.ranks.index(rank.number)
    name = COLLECTIVES[args["Collective name"]].name
    count = args["Out msg nelems" if name == "hcom_reduceScatter_" else "In msg nelems"]
    operator = f"{name}_{identity(group)[-3:]}_{counters[group.name]}_1"
    counters[group.name] += 1
    moves = min(max(latest[_key(rank, row)], row.start), row.end)
    return Exchange(operator, group, moves, count, own, (own + 1) % len(group.ranks))


def _communicator(rank: Rank, row: Row) -> Group:
    """A process group's own, or, for a message, that of its two ranks, which torch_npu makes beside the group's.

    Messages of both directions overlap in these recordings, which one communicator would not let them.
    """
    args = row.args
    if args["Collective name"] in ("send", "recv"):
        pair = (rank.number, args["Dst Rank"]) if args["Collective name"] == "send" else (args["Src Rank"], rank.number)
        return Group("{} to {}".format(*pair), "", pair)
    return rank.groups[args["Process Group Name"]]


def _key(rank: Rank, row: Row) -> tuple[object, ...]:
    """Equal for all members of one collective."""
    return *_communicator(rank, row)[1:], row.args["Seq"]
