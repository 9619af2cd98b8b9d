"""Gives the collectives of all ranks their groups, counts that agree, partners, buffers, and times on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parsers._chrome_header import Header
from parsers._combine import FileContent
from parsers._rows import Rows
from parsers.ascend.counts import sequences
from parsers.ascend.groups import Member
from parsers.ascend.hccl import HcclOp, buffer_counts
from parsers.ascend.job import Job
from parsers.ascend.ranks import Rank
from replay.core.units import NS_PER_US
from replay.trace import MISSING, Group


def contents(ranks: Sequence[Rank], joined: Sequence[dict[int, Member]], job: Job) -> list[FileContent]:
    """Rows of every rank, with groups and counts that agree between ranks."""
    sizes = {group.name: len(group.ranks) or group.size for group in job.groups}
    found = []
    for rank, own, numbers in zip(ranks, joined, sequences(joined, sizes), strict=True):
        header = Header(rank.number, job.world_size, groups=job.groups, device="Ascend", metadata=_metadata(rank))
        found.append(FileContent(rank.file, _with_groups(rank, own, numbers, job), header, rank.health))
    return found


def _with_groups(rank: Rank, joined: dict[int, Member], numbers: dict[int, int], job: Job) -> Rows:
    """The rank's rows, every collective with its group, its place in it, its buffers and its time on the wire."""
    groups = {group.name: group for group in job.groups}
    comms = dict(rank.content.rows.comms)
    for row, member in joined.items():
        group = groups.get(member.group)
        size = MISSING if group is None else len(group.ranks) or group.size
        sent, received = buffer_counts(member.op, size)
        comms[row] = replace(
            comms[row],
            group=member.group,
            sequence=numbers.get(row, MISSING),
            in_nelems=sent,
            out_nelems=received,
            transfer_ns=_transfer_ns(member),
            links=member.statistics.links if member.statistics is not None else (),
            peer=_peer(member.op, group, rank.number, job.world_size),
        )
    return replace(rank.content.rows, comms=comms)


def _transfer_ns(member: Member) -> int:
    """Time on the wire as the planes tell it, else the statistics, else the tasks of the streams."""
    op, statistics = member.op, member.statistics
    if op.transfer_ns >= 0:
        return op.transfer_ns
    if statistics is not None and statistics.transit_ns >= 0:
        return min(statistics.transit_ns, op.dur_ns)
    return op.moving_ns


def _peer(op: HcclOp, group: Group | None, rank: int, world: int) -> int:
    """Global rank of the only partner of an exchange: the other one of two, else of its number in the group."""
    if not op.pairwise:
        return MISSING
    members = group.ranks if group is not None else ()
    others = [member for member in members if member != rank]
    if len(others) == 1:
        return others[0]
    if 0 <= op.partner < len(members):
        return members[op.partner]
    whole = group is not None and group.size == world  # ranks are numbered alike in it
    return op.partner if group is None or whole or op.partner >= max(group.size, 0) else MISSING


def _metadata(rank: Rank) -> dict[str, str]:
    """Facts worth showing; sums of Overlap Analysis are the profiler's own account of the whole recording."""
    shown = dict(rank.described.settings.versions)
    if rank.described.settings.level:
        shown["profiler_level"] = rank.described.settings.level
    for name, total in sorted(rank.content.overlap_ns.items()):
        shown[f"overlap_analysis {name} (us)"] = f"{total / NS_PER_US:.3f}"
    return shown
