"""Ascend profiles: the output folders of torch_npu, msprof and MindSpore, one or many ranks, and their timelines.

A rank is a ``*_ascend_pt`` folder, a bare ``ASCEND_PROFILER_OUTPUT``, or a timeline alone. The timeline gives the ops;
the tables beside it add ids, members and times of collectives, and the shapes and cores of kernels, never ops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from parsers._chrome_header import Header
from parsers._chrome_stream import PIECE_BYTES, ChromeStream
from parsers._combine import FileContent, combine
from parsers._ranks import rank_in_name
from parsers._rows import CommInfo, Rows
from parsers.ascend.cluster import Cluster, read_cluster
from parsers.ascend.csv_rows import Losses
from parsers.ascend.details import with_details
from parsers.ascend.events import Timeline, read_timeline
from parsers.ascend.folder import RankFiles, Role, group, role_of
from parsers.ascend.groups import Member, known_ids, members, shifts
from parsers.ascend.hccl import HcclOp
from parsers.ascend.job import Job, job_of
from parsers.ascend.kernels import KernelRow, read_kernels
from parsers.ascend.rows import AscendContent, read_rows
from parsers.ascend.steps import read_steps
from parsers.ascend.tabled import device_of, tabled_rows
from parsers.ascend.tables import Described, Settings, read_described
from parsers.source import SourceFile
from replay.core.errors import RefusedError, TraceError
from replay.core.units import NS_PER_US
from replay.trace import MISSING, Group, Health, StepTableRow, Trace

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "ascend"
_OF_OPS = (Role.KERNELS, Role.TASKS, Role.COMMUNICATION)  # what tells ops where there is no timeline


@dataclass(frozen=True, slots=True)
class _Rank:
    """Everything read of one rank; the timeline's file may be several slices."""

    file: str
    number: int
    described: Described
    content: AscendContent
    members: dict[int, Member]  # filled when the ids of all ranks are known
    kernels: list[KernelRow]
    steps: tuple[StepTableRow, ...]
    health: Health


def sniff(head: bytes, path: Path) -> bool:
    """True for timelines, tables, settings and databases that Ascend's profilers write."""
    return role_of(head) is not None


def read(files: Sequence[SourceFile], options: ReadOptions, *, piece_bytes: int = PIECE_BYTES) -> Trace:
    """All ranks as one trace; from tables, and not to be replayed, where no rank has a timeline.

    Raises :class:`RefusedError` where no file tells of any op or step, :class:`TraceError` where no row is usable.
    """
    folders, repeated = group(files)
    losses = Losses()
    cluster = read_cluster(folders, losses)
    timed = [folder for folder in folders if folder.timelines]
    chosen = timed or [folder for folder in folders if any(map(folder.of, _OF_OPS))]
    ranks = [rank for folder in chosen for rank in _read_folder(folder, options, piece_bytes)]
    known = {rank.number for rank in ranks}
    ranks += [] if timed else [_of_cluster(rank, cluster) for rank in cluster.ranks if rank not in known]
    if not ranks:
        raise RefusedError(_why_not(folders))
    others = [read_described(folder, (Role.MATRIX,)) for folder in folders if folder not in chosen]
    sizes = [described.sizes for described in (*(rank.described for rank in ranks), *others)]
    used = [rank for rank in ranks if len(rank.content.rows)]
    ranks = _numbered(used or (ranks if cluster.steps else [_unusable(ranks)]))
    settings = [rank.described.settings for rank in ranks]
    ids = known_ids([*settings, Settings(groups=cluster.groups)], (rank.described.statistics for rank in ranks))
    ranks = [replace(rank, members=members(rank.content.ops, rank.described.statistics, ids)) for rank in ranks]
    by_number = {rank.number if rank.number >= 0 else at: rank.members for at, rank in enumerate(ranks)}
    job = job_of(by_number, settings, sizes, cluster)
    trace = combine(_contents(ranks, job), FORMAT)
    numbers = _numbers(trace, ranks)
    trace = with_details(trace, {number: rank.kernels for number, rank in zip(numbers, ranks, strict=True)})
    steps = [replace(row, rank=number) for number, rank in zip(numbers, ranks, strict=True) for row in rank.steps]
    return replace(
        trace,
        health=trace.health.merged(_left_out(folders, repeated)).merged(_lost(losses)),
        step_table=_all_steps(steps, cluster),
        not_replayable="" if timed else _why_not(folders),
        layout=job.layout,
        world_evidence=job.evidence,
    )


def _of_cluster(rank: int, cluster: Cluster) -> _Rank:
    """A rank that only the cluster's files know."""
    statistics = cluster.statistics.get(rank, [])
    described = Described(Settings(rank), statistics, {}, ())
    content = tabled_rows([], statistics)
    return _Rank(cluster.files[0], rank, described, content, {}, [], (), Health(events=len(content.rows)))


def _all_steps(own: Sequence[StepTableRow], cluster: Cluster) -> tuple[StepTableRow, ...]:
    """Steps of the ranks' own tables, and those that only the cluster's table has."""
    known = {(row.rank, row.step) for row in own}
    return (*own, *(row for row in cluster.steps if (row.rank, row.step) not in known or row.stage))


def _lost(losses: Losses) -> Health:
    return Health(dropped=dict(+losses.dropped), warnings=tuple(losses.damaged))


def _contents(ranks: Sequence[_Rank], job: Job) -> list[FileContent]:
    """Rows of every rank, with groups and counts that agree between ranks."""
    named = {group.name: group for group in job.groups}
    contents = []
    for rank, shift in zip(ranks, shifts([rank.members for rank in ranks]), strict=True):
        header = Header(rank.number, job.world_size, groups=job.groups, device="Ascend", metadata=_metadata(rank))
        contents.append(FileContent(rank.file, _with_groups(rank, shift, named), header, rank.health))
    return contents


def _read_folder(folder: RankFiles, options: ReadOptions, piece_bytes: int) -> list[_Rank]:
    """What a folder holds: one rank, or one for each device where its tables are of several."""
    losses = Losses()
    described = read_described(folder)
    kernels = read_kernels(folder, losses)
    told = described.settings.rank
    number = told if told != MISSING else rank_in_name(folder.folder.name)
    steps = read_steps(folder.of(Role.STEPS), number, losses)
    lost = Health(dropped=dict(+losses.dropped), warnings=(*described.damaged, *losses.damaged))
    tables = replace(lost, events=sum(lost.dropped.values()))
    if folder.timelines:
        timeline = read_timeline([ChromeStream(file.blocks(piece_bytes), file.name) for file in folder.timelines])
        content = read_rows(timeline, keep_modules=options.keep_modules)
        name, health = folder.timelines[0].name, _health(timeline, content).merged(tables)
        return [_Rank(name, number, described, content, {}, kernels, steps, health)]
    name = next(file.name for role in _OF_OPS for file in folder.of(role))
    devices = sorted({row.device for row in kernels if row.device >= 0}) or [device_of(folder.folder)]
    ranks: list[_Rank] = []
    for device in devices:
        own = [row for row in kernels if len(devices) == 1 or row.device == device]
        content = tabled_rows(own, described.statistics if device == devices[0] else [], device)
        health = Health(events=len(own)) if ranks else tables.merged(Health(events=len(own)))
        ranks.append(_Rank(name, number if len(devices) == 1 else MISSING, described, content, {}, own, steps, health))
    return ranks


def _health(timeline: Timeline, content: AscendContent) -> Health:
    return Health(
        events=timeline.losses.seen,
        dropped=dict(timeline.losses.dropped + content.dropped),
        skipped=dict(timeline.skipped + content.skipped),
        clipped=dict(timeline.losses.repaired),
        inferred=dict(content.inferred),
        warnings=tuple(f"{name} ends in the middle; the events before are used" for name in timeline.cut_short),
    )


def _with_groups(rank: _Rank, shift: dict[str, int], groups: dict[str, Group]) -> Rows:
    """The rank's rows, every collective with its group, its place in it and its time on the wire."""
    rows = rank.content.rows
    comms = dict(rows.comms)
    for row, member in rank.members.items():
        info = _described(comms[row], member, shift)
        comms[row] = replace(info, peer=_peer(member.op, groups.get(member.group), rank.number))
    return replace(rows, comms=comms)


def _described(info: CommInfo, member: Member, shift: dict[str, int]) -> CommInfo:
    op, statistics = member.op, member.statistics
    transfer = op.transfer_ns
    if transfer < 0 and statistics is not None:
        transfer = min(statistics.transit_ns, op.dur_ns)
    sequence = op.counter + shift.get(member.group, 0) if op.counter >= 0 else MISSING
    links = statistics.links if statistics is not None else ()
    return replace(info, group=member.group, sequence=sequence, transfer_ns=transfer, links=links)


def _peer(op: HcclOp, group: Group | None, rank: int) -> int:
    """Global rank of a send's or receive's partner: the other one of two, else of its number in the group."""
    if not op.operator.lower().startswith(("send", "recv", "receive")):
        return MISSING
    members = group.ranks if group is not None else ()
    others = [member for member in members if member != rank]
    if len(others) == 1:
        return others[0]
    if 0 <= op.partner < len(members):
        return members[op.partner]
    return op.partner if group is None or op.partner >= max(group.size, 0) else MISSING


def _numbered(ranks: list[_Rank]) -> list[_Rank]:
    """Where no file tells any rank, the numbers of the devices do, if they differ."""
    devices = [rank.content.device for rank in ranks]
    told = any(rank.number != MISSING for rank in ranks)
    if told or MISSING in devices or len(set(devices)) < len(devices):
        return ranks
    return [replace(rank, number=device) for rank, device in zip(ranks, devices, strict=True)]


def _numbers(trace: Trace, ranks: Sequence[_Rank]) -> list[int]:
    """Rank numbers as combined: recorded ones, else in the order of the files."""
    recorded = [rank.number for rank in ranks]
    return recorded if set(recorded) == set(trace.ranks) else list(trace.ranks)


def _metadata(rank: _Rank) -> dict[str, str]:
    """Facts worth showing; sums of Overlap Analysis are the profiler's own account of the whole recording."""
    shown = dict(rank.described.settings.versions)
    if rank.described.settings.level:
        shown["profiler_level"] = rank.described.settings.level
    for name, total in sorted(rank.content.overlap_ns.items()):
        shown[f"overlap_analysis {name} (us)"] = f"{total / NS_PER_US:.3f}"
    return shown


def _left_out(folders: Sequence[RankFiles], repeated: int) -> Health:
    """Files whose content is not used, and ranks without a timeline."""
    skipped = Counter({"timelines that repeat another one of their rank": repeated})
    skipped["sqlite exports beside their timeline"] = sum(len(folder.of(Role.DATABASE)) for folder in folders)
    skipped["statistics tables"] = sum(len(folder.of(Role.TABLE)) for folder in folders)
    some = any(folder.timelines for folder in folders)
    without = sum(some and not folder.timelines and bool(folder.of(Role.KERNELS)) for folder in folders)
    warnings = (f"{without} ranks have tables but no timeline and were left out",) if without else ()
    return Health(skipped=dict(+skipped), warnings=warnings)


def _why_not(folders: Sequence[RankFiles]) -> str:
    """What was found instead of a timeline, and how to get one."""
    found = Counter(role.value for folder in folders for role, files in folder.files.items() for _ in files)
    what = ", ".join(f"{count} {word}" for word, count in sorted(found.items()))
    if any(folder.of(Role.DATABASE) for folder in folders):
        how = "sqlite exports are not read yet: export text as well (export_type Text, or msprof --export=on)"
    else:
        how = "record with torch_npu's profiler and keep trace_view.json, or msprof's msprof_*.json"
    return f"the Ascend output holds no timeline ({what}), and without one nothing can be replayed; {how}"


def _unusable(ranks: Sequence[_Rank]) -> _Rank:
    seen = sum(rank.health.events for rank in ranks)
    raise TraceError(f"{ranks[0].file}: {seen} records, none of which is an event with a time and a duration")
