"""HCCL operators: one collective for each row of a "Group … Communication" thread; its planes tell wait and transfer.

The name is ``hcom_<op>__<last three characters of the communicator>_<count>_<iteration>``; the count runs from the
begin of profiling. Time on the wire is taken from the *master plane*, the first that exchanges with another rank, as
CANN's ``communication.json`` does: the sum of its Memcpy and Reduce_Inline tasks, and of RDMASend up to its
acknowledgement.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from parsers._numbers import integer
from parsers.ascend.events import AscendArgs, Timeline
from parsers.ascend.tasks import DTYPES, TRANSIT, is_remote
from parsers.ascend.timed import Timed
from replay.trace import MISSING

_NAME = re.compile(r"^hcom_([a-z]+)_?_(\w{1,3})_(-?\d+)(?:_(\d+))?(?:@(\S+))?$", re.IGNORECASE)
_GROUP_THREAD = re.compile(r"^Group (.+) Communication$", re.IGNORECASE)
_PLANE_THREAD = re.compile(r"^Plane \d+$", re.IGNORECASE)
_PAIRWISE = re.compile(r"send|recv|receive", re.IGNORECASE)
_NO_ARGS = AscendArgs()


@dataclass(frozen=True, slots=True)
class HcclOp:
    """One collective of one rank; -1 and empty where the timeline does not say."""

    row: int  # in the communication rows, -1 for a row of a table
    name: str  # as written
    operator: str  # "allReduce"
    suffix: str  # last characters of the communicator's id
    counter: int
    group: str  # as named by the thread, or behind the @
    start_ns: int
    dur_ns: int
    count: int
    dtype: str
    algorithm: str  # phases joined by "-": "MESH-RING"
    rank_size: int
    transfer_ns: int
    peers: tuple[int, ...]  # members of the group whose numbers show in the sub-tasks
    partner: int  # number of the other rank, of a send or receive
    stream: int  # as the sub-tasks name it

    @property
    def end_ns(self) -> int:
        """start + duration."""
        return self.start_ns + self.dur_ns


def hccl_ops(timeline: Timeline, rows: Timed) -> tuple[list[HcclOp], int]:
    """Collectives in order of start, and how many sub-tasks their planes hold."""
    threads = {str(event.tid): timeline.thread_of(event) for event in rows.events}
    group_of_thread = _group_threads(threads)
    big: list[int] = []
    others = 0
    planes: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))  # group thread → plane → rows
    for row, event in enumerate(rows.events):
        thread = str(event.tid)
        if thread in group_of_thread:
            planes[group_of_thread[thread]][integer(event.tid)].append(row)
        elif _is_operator(str(event.name), threads[thread]):
            big.append(row)
        else:
            others += 1
    big.sort(key=lambda row: int(rows.start_ns[row]))
    sub_tasks = others + sum(len(tasks) for own in planes.values() for tasks in own.values())
    for own in planes.values():
        for tasks in own.values():
            tasks.sort(key=lambda row: int(rows.start_ns[row]))
    return [_op(rows, row, threads, planes[str(rows.events[row].tid)]) for row in big], sub_tasks


def _is_operator(name: str, thread: str) -> bool:
    """Whether a row outside of the planes is an operator: by its own name, or on a thread that holds nothing else."""
    return name.lower().startswith("hcom_") or bool(_GROUP_THREAD.match(thread)) or "communication" in thread.lower()


def op_of_name(name: str, start_ns: int, dur_ns: int) -> HcclOp:
    """What the name of a collective tells by itself, for rows of a table."""
    parts = _NAME.match(name)
    return HcclOp(
        row=MISSING,
        name=name,
        operator=parts[1] if parts else name,
        suffix=parts[2] if parts else "",
        counter=int(parts[3]) if parts else MISSING,
        group=(parts[5] or "") if parts else "",
        start_ns=start_ns,
        dur_ns=dur_ns,
        count=MISSING,
        dtype="",
        algorithm="",
        rank_size=MISSING,
        transfer_ns=MISSING,
        peers=(),
        partner=MISSING,
        stream=MISSING,
    )


def _group_threads(threads: dict[str, str]) -> dict[str, str]:
    """Plane thread → the thread of its group, which stands before it."""
    groups = sorted(integer(tid) for tid, name in threads.items() if not _PLANE_THREAD.match(name))
    found = {}
    for tid in (tid for tid, name in threads.items() if _PLANE_THREAD.match(name)):
        before = bisect_left(groups, integer(tid)) - 1
        found[tid] = str(groups[before]) if before >= 0 else ""
    return found


def _op(rows: Timed, row: int, threads: dict[str, str], planes: dict[int, list[int]]) -> HcclOp:
    event = rows.events[row]
    args = event.args or _NO_ARGS
    start, dur = int(rows.start_ns[row]), int(rows.dur_ns[row])
    inside = {plane: _between(rows, tasks, start, start + dur) for plane, tasks in sorted(planes.items())}
    tasks = [task for own in inside.values() for task in own]
    named = _GROUP_THREAD.match(threads.get(str(event.tid), ""))
    dtype = str(args.data_type or "")
    told = op_of_name(str(event.name), start, dur)
    return replace(
        told,
        row=row,
        group=told.group or (named[1] if named else ""),
        count=integer(args.count),
        dtype=DTYPES.get(dtype.upper(), dtype),
        algorithm=str(args.algorithm or ""),
        rank_size=integer(args.rank_size),
        transfer_ns=min(_transfer_ns(rows, inside), dur),
        peers=_peers(rows, tasks),
        partner=_partner(rows, tasks) if _PAIRWISE.match(told.operator) else MISSING,
        stream=next((integer(_args(rows, task).stream_id) for task in tasks), MISSING),
    )


def _between(rows: Timed, tasks: Sequence[int], start: int, end: int) -> list[int]:
    first = bisect_left(tasks, start, key=lambda row: int(rows.start_ns[row]))
    last = bisect_left(tasks, end, key=lambda row: int(rows.start_ns[row]))
    return list(tasks[first:last])


def _transfer_ns(rows: Timed, planes: dict[int, list[int]]) -> int:
    """Time on the wire of the master plane, -1 where no plane exchanges with another rank."""
    for tasks in planes.values():
        if any(_is_remote_transit(rows, task) for task in tasks):
            return sum(_transit_ns(rows, tasks, at) for at in range(len(tasks)))
    return MISSING


def _is_remote_transit(rows: Timed, task: int) -> bool:
    args = _args(rows, task)
    return _is_transit(rows, task) and is_remote(integer(args.source_rank), integer(args.target_rank))


def _is_transit(rows: Timed, task: int) -> bool:
    name = str(rows.events[task].name).lower()
    if name == "rdmasend":  # those without bytes only notify
        return integer(_args(rows, task).packet_bytes) > 0
    return name in TRANSIT


def _transit_ns(rows: Timed, tasks: Sequence[int], at: int) -> int:
    task = tasks[at]
    if not _is_transit(rows, task):
        return 0
    if str(rows.events[task].name).lower() == "rdmasend":  # posted in no time; the notify that follows acknowledges
        for later in tasks[at + 1 :]:
            if str(rows.events[later].name).lower() == "notify_wait":
                return int(rows.start_ns[later] + rows.dur_ns[later] - rows.start_ns[task])
            if _is_transit(rows, later):
                break
    return int(rows.dur_ns[task])


def _peers(rows: Timed, tasks: Sequence[int]) -> tuple[int, ...]:
    seen: set[int] = set()
    for args in (_args(rows, task) for task in tasks):
        source, target = integer(args.source_rank), integer(args.target_rank)
        if is_remote(source, target):
            seen.update((source, target))
    return tuple(sorted(seen))


def _partner(rows: Timed, tasks: Sequence[int]) -> int:
    """Target of the first sub-task that concerns another rank: sub-tasks name their own rank as the source."""
    ends = ((integer(args.source_rank), integer(args.target_rank)) for args in (_args(rows, task) for task in tasks))
    return next((target for source, target in ends if is_remote(source, target)), MISSING)


def _args(rows: Timed, task: int) -> AscendArgs:
    return rows.events[task].args or _NO_ARGS
