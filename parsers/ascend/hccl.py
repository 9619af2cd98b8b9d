"""HCCL operators: one collective for each row of a "Group … Communication" thread; its planes tell wait and transfer.

The name is ``hcom_<op>__<last three characters of the communicator>_<count>_<iteration>``; the count runs from the
begin of profiling, apart for those that the device's own processor launches (``…AicpuKernel``). Time on the wire is
taken from the *master plane*, the first that exchanges with another rank, as CANN's ``communication.json`` does: the
sum of its Memcpy and Reduce_Inline tasks, and of RDMA payloads up to their acknowledgement.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from parsers._comm_names import dtype_nbytes, kind_of_name
from parsers._numbers import integer, integers
from parsers.ascend.events import Timeline
from parsers.ascend.tasks import DTYPES, EITHER_SIDE, NO_DTYPES, PAYLOADS, TRANSIT
from parsers.ascend.text import MOST_RANKS, NONE
from parsers.ascend.timed import Timed
from replay.core.columns import Bool, Int64
from replay.trace import MISSING, CollectiveKind

_NAME = re.compile(r"^([A-Za-z]\w*?)_{0,2}_(\w{1,3})_(-?\d+)(?:_(\d+))?(?:@(\S+))?$")
_PREFIX = re.compile(r"^(?:hcom|hccl)_", re.IGNORECASE)
_SERVED = re.compile(r"_?(?:Mc2)?_?Ai?cpu(?:Kernel)?$", re.IGNORECASE)
_AIV = re.compile(r"_?Aiv(?:Kernel)?$|^aiv_", re.IGNORECASE)
_GROUP_THREAD = re.compile(r"^(?:Group (.+?) )?(?:Ai?cpu )?Communication\b", re.IGNORECASE)
_PLANE_THREAD = re.compile(r"^Plane \d+$", re.IGNORECASE)
_PAIRWISE = (CollectiveKind.SEND, CollectiveKind.RECV, CollectiveKind.SEND_RECV)
_ACKNOWLEDGED = "notify_wait"
_NOTIFY_BYTES = 8  # of an RDMA task that only signals
_TO_ACKNOWLEDGE, _TO_BARRIER = 2, 4  # tasks from the last payload on; sends and receives have no barrier
_ALL_OF_IT = 0.9  # half of it would be one direction of two


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
    served: bool  # by a kernel of the device's own processor: a fused kernel's (MC2), or AICPU's way of a collective
    count: int
    dtype: str
    algorithm: str  # phases joined by "-": "MESH-RING"
    rank_size: int
    transfer_ns: int
    peers: tuple[int, ...]  # members of the group whose numbers show in the sub-tasks
    partner: int  # number of the other rank, of a send or receive
    streams: tuple[int, ...]  # as the sub-tasks name them
    direction: CollectiveKind = CollectiveKind.UNKNOWN  # of a batched exchange that has one only
    moving_ns: int = MISSING  # in which any of its device tasks moved data, where they show it waiting, too

    @property
    def end_ns(self) -> int:
        """start + duration."""
        return self.start_ns + self.dur_ns

    @property
    def kind(self) -> CollectiveKind:
        """Kind by the operator's name, and of a batched exchange by its direction."""
        return self.direction or kind_of_name(self.operator)

    @property
    def uneven(self) -> bool:
        """Whether ranks may give different counts: allGatherv, alltoallvc, batchSendRecv."""
        return self.operator.lower().rstrip("c").endswith("v")

    @property
    def fewest_members(self) -> int:
        """How many ranks its group must have by its size and the members that show in its sub-tasks, 0 unknown."""
        return max(self.rank_size, max(self.peers, default=MISSING) + 1)

    @property
    def pairwise(self) -> bool:
        """Whether it concerns single other ranks: their counts do not agree over a group."""
        return self.kind in _PAIRWISE


@dataclass(frozen=True, slots=True)
class _SubTasks:
    """What the tasks of all planes say, one entry for each communication row."""

    rows: Timed
    name: list[str]  # lower case
    source: Int64
    target: Int64
    stream: Int64
    nbytes: Int64
    remote: Bool  # concerns another rank
    transit: Bool  # moves data
    planes: dict[str, dict[int, Int64]] = field(default_factory=dict)  # group thread → plane → rows in order of start


def hccl_ops(timeline: Timeline, rows: Timed) -> tuple[list[HcclOp], int]:
    """Collectives in order of start, and how many sub-tasks their planes hold."""
    threads = {str(event.tid): timeline.thread_of(event) for event in rows.events}
    group_of_plane = _group_threads(threads)
    big: list[int] = []
    planes: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, event in enumerate(rows.events):
        thread = str(event.tid)
        if thread in group_of_plane:
            planes[group_of_plane[thread]][integer(event.tid)].append(row)
        elif _is_operator(str(event.name), threads[thread]):
            big.append(row)
    big.sort(key=lambda row: int(rows.start_ns[row]))
    tasks = _sub_tasks(rows)
    for group, own in planes.items():
        tasks.planes[group] = {plane: _by_start(rows, own[plane]) for plane in sorted(own)}
    return _once([_op(tasks, row, threads) for row in big]), len(rows) - len(big)


def _once(ops: Sequence[HcclOp]) -> list[HcclOp]:
    """One op for each collective: of those that the device's own processor launches, the host may have a row, too.

    A communicator does one thing at a time. The host's row is kept, with what only the planes of the other tell.
    """
    kept: list[HcclOp] = []
    last: dict[tuple[str, str], int] = {}
    for op in ops:
        key = op.suffix, op.operator.lower()
        before = kept[last[key]] if op.suffix and key in last else None
        if before is None or before.served == op.served or before.end_ns <= op.start_ns:
            last[key] = len(kept)
            kept.append(op)
            continue
        host, other = (op, before) if before.served else (before, op)
        planes = other if host.transfer_ns < 0 else host
        kept[last[key]] = replace(
            host,
            transfer_ns=min(planes.transfer_ns, host.dur_ns),
            peers=planes.peers,
            partner=planes.partner,
            streams=planes.streams,
        )
    return kept


def op_of_name(name: str, start_ns: int, dur_ns: int) -> HcclOp:
    """What the name of a collective tells by itself, for rows of a table."""
    parts = _NAME.match(name)
    base = parts[1] if parts else name
    served = is_served(base)
    return HcclOp(
        row=MISSING,
        name=name,
        operator=operator_of(base) if parts or served else name,
        suffix=parts[2] if parts else "",
        counter=int(parts[3]) if parts else MISSING,
        group=(parts[5] or "") if parts else "",
        start_ns=start_ns,
        dur_ns=dur_ns,
        served=served,
        count=MISSING,
        dtype="",
        algorithm="",
        rank_size=MISSING,
        transfer_ns=MISSING,
        peers=(),
        partner=MISSING,
        streams=(),
    )


def is_served(name: str) -> bool:
    """Whether the device's own processor carries out what bears this name, or the communication of it."""
    return bool(_SERVED.search(name))


def is_carrier(name: str) -> bool:
    """Whether a kernel of this name carries out a collective, or serves the one that is inside of another kernel."""
    return is_served(name) or bool(_AIV.search(name)) or bool(_PREFIX.match(name))


def operator_of(name: str) -> str:
    """The operator in a name without numbers: ``hcom_allGather_AicpuKernel`` is an allGather."""
    return _AIV.sub("", _SERVED.sub("", _PREFIX.sub("", name))).strip("_")


def buffer_counts(op: HcclOp, size: int) -> tuple[int, int]:
    """Elements of the input and of the output buffer in a group of ``size`` ranks, -1 unknown.

    HCCL reports the count that its caller gave: of this rank's own part where every rank has an equal one, and the sum
    over all parts in the operators whose name ends in v (hccl, op_base.cc and GetHcclDfxOpInfoDataCount).
    """
    count, whole = op.count, op.count * size if size > 0 and op.count >= 0 else MISSING
    if op.kind == CollectiveKind.ALL_TO_ALL:
        return (count, MISSING) if op.uneven else (whole, whole)
    if op.kind in (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER):
        return (MISSING, count) if op.uneven else (count, whole)
    if op.kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.SCATTER):
        return (MISSING, count) if op.uneven else (whole, count)
    return count, count


def _is_operator(name: str, thread: str) -> bool:
    """Whether a row outside of the planes is an operator: by its own name, or on a thread that holds nothing else."""
    return bool(_PREFIX.match(name)) or "communication" in thread.lower()


def _group_threads(threads: dict[str, str]) -> dict[str, str]:
    """Plane thread → the thread of its group, which stands before it."""
    groups = np.array(sorted(integer(tid) for tid, name in threads.items() if not _PLANE_THREAD.match(name)), np.int64)
    found = {}
    for tid in (tid for tid, name in threads.items() if _PLANE_THREAD.match(name)):
        before = int(np.searchsorted(groups, integer(tid))) - 1
        found[tid] = str(groups[before]) if before >= 0 else ""
    return found


def _sub_tasks(rows: Timed) -> _SubTasks:
    name = [str(event.name).lower() for event in rows.events]
    source, target, stream, nbytes = (
        integers([read(args) for args in rows.args])
        for read in map(attrgetter, ("source_rank", "target_rank", "stream_id", "packet_bytes"))
    )
    remote = (np.minimum(source, target) >= 0) & (np.maximum(source, target) < MOST_RANKS) & (source != target)
    transit = np.array([word in TRANSIT for word in name], np.bool_)
    payload = np.array([word in PAYLOADS for word in name], np.bool_)
    transit &= ~payload | (nbytes > _NOTIFY_BYTES)
    return _SubTasks(rows, name, source, target, stream, nbytes, remote, transit)


def _by_start(rows: Timed, tasks: Sequence[int]) -> Int64:
    own = np.array(tasks, np.int64)
    return own[np.argsort(rows.start_ns[own], kind="stable")]


def _op(tasks: _SubTasks, row: int, threads: dict[str, str]) -> HcclOp:
    rows = tasks.rows
    event, args = rows.events[row], rows.args[row]
    told = op_of_name(str(event.name), int(rows.start_ns[row]), int(rows.dur_ns[row]))
    planes = [_within(rows, plane, told) for plane in tasks.planes.get(str(event.tid), {}).values()]
    inside = np.concatenate([np.zeros(0, np.int64), *planes])
    remote = inside[tasks.remote[inside]]
    named = _GROUP_THREAD.match(threads.get(str(event.tid), ""))
    dtype = str(args.data_type or "").upper()
    count = integer(args.count)
    transfer = next((_transfer_ns(tasks, plane, told) for plane in planes if _exchanges(tasks, plane)), MISSING)
    peers = np.unique(np.concatenate([tasks.source[remote], tasks.target[remote]]))
    partners = np.unique(tasks.target[remote])  # sub-tasks name their own rank as the source
    told = replace(
        told,
        row=row,
        group=told.group or (named[1] or "" if named else ""),
        count=MISSING if count == NONE else count,
        dtype=DTYPES.get(dtype, "" if dtype in NO_DTYPES else dtype),
        algorithm=str(args.algorithm or ""),
        rank_size=size if (size := integer(args.rank_size)) <= MOST_RANKS else MISSING,
        transfer_ns=min(transfer, told.dur_ns),
        peers=tuple(peers.tolist()),
        partner=int(partners[0]) if told.pairwise and len(partners) == 1 else MISSING,
        streams=tuple(np.unique(tasks.stream[inside][tasks.stream[inside] >= 0]).tolist()),
    )
    return replace(told, direction=_direction(tasks, inside, told)) if told.kind == CollectiveKind.SEND_RECV else told


def _direction(tasks: _SubTasks, inside: Int64, op: HcclOp) -> CollectiveKind:
    """Whether a batched exchange with one partner only sends or only receives, UNKNOWN where it does both.

    Copies inside of a node are made by the receiver, RDMA payloads are posted by the sender (hccl, TransportP2p and
    TransportIbverbs). The count is of everything that is exchanged.
    """
    nbytes = op.count * dtype_nbytes(op.dtype)
    words = {tasks.name[row] for row in inside.tolist()}
    if op.partner < 0 or nbytes <= 0 or words & EITHER_SIDE:
        return CollectiveKind.UNKNOWN
    by_sender = bool(words & PAYLOADS)
    moved = int(tasks.nbytes[inside[tasks.remote[inside] & tasks.transit[inside]]].sum())
    if 0 < moved < _ALL_OF_IT * nbytes:
        return CollectiveKind.UNKNOWN
    return CollectiveKind.SEND if (moved > 0) == by_sender else CollectiveKind.RECV


def _within(rows: Timed, plane: Int64, op: HcclOp) -> Int64:
    first, last = np.searchsorted(rows.start_ns[plane], (op.start_ns, op.end_ns)).tolist()
    return plane[first:last]


def _exchanges(tasks: _SubTasks, plane: Int64) -> bool:
    return bool((tasks.remote[plane] & tasks.transit[plane]).any())


def _transfer_ns(tasks: _SubTasks, plane: Int64, op: HcclOp) -> int:
    """Time on the wire of the tasks of one plane."""
    payload = tasks.transit[plane] & [tasks.name[row] in PAYLOADS for row in plane.tolist()]
    total = int(tasks.rows.dur_ns[plane[tasks.transit[plane] & ~payload]].sum())
    ends = np.flatnonzero(payload & ~np.append(payload[1:], False))
    begins = np.flatnonzero(payload & ~np.append(False, payload[:-1]))
    for first, last in zip(begins.tolist(), ends.tolist(), strict=True):  # posted in no time; a notify acknowledges
        total += _acknowledged(tasks, plane, last, op) - int(tasks.rows.start_ns[plane[first]])
    return total


def _acknowledged(tasks: _SubTasks, plane: Int64, last: int, op: HcclOp) -> int:
    """When the payload that ends with task ``last`` of a plane had arrived; its own end where no notify tells."""
    for after in (_TO_BARRIER, _TO_ACKNOWLEDGE)[op.pairwise :]:
        at = last + after
        if at < len(plane) and tasks.name[plane[at]] == _ACKNOWLEDGED:
            return tasks.rows.end_of(int(plane[at]))
    return tasks.rows.end_of(int(plane[last]))
