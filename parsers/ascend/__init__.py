"""Ascend profiles: the output folders of torch_npu, msprof and MindSpore, one or many ranks, and their timelines.

A rank is a ``*_ascend_pt`` folder, a bare ``ASCEND_PROFILER_OUTPUT``, a timeline or a sqlite export alone. The timeline
gives the ops, the export where there is no whole one; the tables beside it add ids, members and times of collectives,
and the shapes and cores of kernels, never ops.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from parsers._chrome_header import Header
from parsers._chrome_stream import PIECE_BYTES
from parsers._combine import FileContent, combine
from parsers._rows import Rows
from parsers.ascend.cluster import Cluster, read_cluster
from parsers.ascend.counts import sequences
from parsers.ascend.csv_rows import Losses
from parsers.ascend.database import is_sqlite
from parsers.ascend.described import read_described
from parsers.ascend.details import with_details
from parsers.ascend.folder import RECORDINGS, RankFiles, Role, group, is_settings, role_of, role_of_file
from parsers.ascend.groups import Member, known_ids, members
from parsers.ascend.hccl import HcclOp, buffer_counts
from parsers.ascend.job import Job, job_of
from parsers.ascend.ranks import OF_OPS, Rank, numbered, rank_of_cluster, read_folder
from parsers.ascend.settings import Settings
from parsers.source import SourceFile
from replay.core.errors import RefusedError, TraceError
from replay.core.units import NS_PER_US
from replay.core.words import listed
from replay.trace import MISSING, Group, Health, StepTableRow, Trace

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "ascend"
COMPANIONS = re.compile(r"^ascend_timeline_(?:display|summary)_\d+\.json")  # drawn from MindSpore's tables beside them


def sniff(head: bytes, path: Path) -> bool:
    """True for timelines, tables, settings and databases that Ascend's profilers write."""
    return role_of(head) is not None or is_settings(path.name)


def is_shared(file: SourceFile) -> bool:
    """True for settings and tables beside a recording, which are often the same on every rank."""
    return role_of_file(file) not in RECORDINGS


def recognise(file: SourceFile) -> bool:
    """True for sqlite databases that Ascend's profilers write, whose tables do not show at their beginning."""
    return is_sqlite(file.head()) and role_of_file(file) is not None


def read(files: Sequence[SourceFile], options: ReadOptions, *, piece_bytes: int = PIECE_BYTES) -> Trace:
    """All ranks as one trace; from tables, and not to be replayed, where no rank has a timeline.

    Raises :class:`RefusedError` where no file tells of any op or step, :class:`TraceError` where no row is usable.
    """
    folders, left_out = group(files)
    losses = Losses()
    cluster = read_cluster(folders, losses)
    timed = [folder for folder in folders if folder.has_events]
    chosen = timed or [folder for folder in folders if any(map(folder.of, OF_OPS))]
    ranks = [rank for folder in chosen for rank in read_folder(folder, piece_bytes, keep_modules=options.keep_modules)]
    known = {rank.number for rank in ranks}
    ranks += [] if timed else [rank_of_cluster(rank, cluster) for rank in cluster.ranks if rank not in known]
    others = [read_described(folder, (Role.MATRIX,)) for folder in folders if folder not in chosen]
    sizes = [described.sizes for described in (*(rank.described for rank in ranks), *others)]
    usable = _usable(ranks, folders, cluster)
    empty = _without_events([rank for rank in ranks if not any(rank is other for other in usable)])
    ranks = numbered(usable)
    settings = [rank.described.settings for rank in ranks]
    ids = known_ids([*settings, Settings(groups=cluster.groups)], (rank.described.statistics for rank in ranks))
    joined = [members(rank.content.ops, rank.described.statistics, ids) for rank in ranks]
    by_number = {rank.number if rank.number >= 0 else at: joined[at] for at, rank in enumerate(ranks)}
    job = job_of(by_number, settings, sizes, cluster)
    trace = combine(_contents(ranks, joined, job), FORMAT)
    numbers = _numbers(trace, ranks)
    trace = with_details(trace, {number: rank.kernels for number, rank in zip(numbers, ranks, strict=True)})
    steps = [replace(row, rank=number) for number, rank in zip(numbers, ranks, strict=True) for row in rank.steps]
    memory = [replace(peak, rank=number) for number, rank in zip(numbers, ranks, strict=True) for peak in rank.memory]
    sums = [replace(row, rank=number) for number, rank in zip(numbers, ranks, strict=True) for row in rank.summaries]
    return replace(
        trace,
        health=reduce(
            Health.merged, (trace.health, _left_out(folders, left_out), empty, losses.health(), _on_host(trace))
        ),
        files=(*(rank.file for rank in ranks if rank.folder != Path()), *cluster.files),
        step_table=_all_steps(steps, cluster),
        summaries=tuple(sums),
        memory=tuple(memory),
        not_replayable="" if timed else _why_not(folders),
        layout=job.layout,
        world_evidence=job.evidence,
    )


def _all_steps(own: Sequence[StepTableRow], cluster: Cluster) -> tuple[StepTableRow, ...]:
    """Steps of the ranks' own tables, and those that only the cluster's table has."""
    known = {(row.rank, row.step) for row in own}
    return (*own, *(row for row in cluster.steps if (row.rank, row.step) not in known or row.stage))


def _contents(ranks: Sequence[Rank], joined: Sequence[dict[int, Member]], job: Job) -> list[FileContent]:
    """Rows of every rank, with groups and counts that agree between ranks."""
    sizes = {group.name: len(group.ranks) or group.size for group in job.groups}
    contents = []
    for rank, own, numbers in zip(ranks, joined, sequences(joined, sizes), strict=True):
        header = Header(rank.number, job.world_size, groups=job.groups, device="Ascend", metadata=_metadata(rank))
        contents.append(FileContent(rank.file, _with_groups(rank, own, numbers, job), header, rank.health))
    return contents


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


def _numbers(trace: Trace, ranks: Sequence[Rank]) -> list[int]:
    """Rank numbers as combined: recorded ones, else in the order of the files."""
    recorded = [rank.number for rank in ranks]
    return recorded if set(recorded) == set(trace.ranks) else list(trace.ranks)


def _metadata(rank: Rank) -> dict[str, str]:
    """Facts worth showing; sums of Overlap Analysis are the profiler's own account of the whole recording."""
    shown = dict(rank.described.settings.versions)
    if rank.described.settings.level:
        shown["profiler_level"] = rank.described.settings.level
    for name, total in sorted(rank.content.overlap_ns.items()):
        shown[f"overlap_analysis {name} (us)"] = f"{total / NS_PER_US:.3f}"
    return shown


def _left_out(folders: Sequence[RankFiles], skipped: Counter[str]) -> Health:
    """Files whose content is not used, and ranks without a timeline."""
    some = any(folder.has_events for folder in folders)
    unused = (Role.TABLE, Role.SUMMARY) if some else (Role.TABLE,)
    tables = sum(len(folder.of(role)) for folder in folders for role in unused)
    without = sum(some and not folder.has_events and any(map(folder.of, OF_OPS)) for folder in folders)
    warnings = (f"{without} ranks have tables but no timeline and were left out",) if without else ()
    return Health(skipped=dict(+(skipped + Counter({"statistics tables": tables}))), warnings=warnings)


def _without_events(ranks: Sequence[Rank]) -> Health:
    """What was lost of ranks of which nothing can be used, and the names of those that have a folder."""
    told = (
        f"{rank.file}: no event with a time and a duration; its rank is left out" for rank in ranks if rank.folder.name
    )
    return reduce(Health.merged, (rank.health for rank in ranks), Health(warnings=tuple(told)))


def _on_host(trace: Trace) -> Health:
    """Ranks whose device was not recorded: what a framework does on the host must not pass for what the device did."""
    on_device = set(trace.rank[trace.is_device].tolist())
    bare = [str(rank) for rank in sorted(set(trace.rank.tolist()) - on_device)]
    told = "the device was not recorded (Level_none, or no NPU activity), operators of the host stand for its compute"
    return Health(warnings=(f"rank {listed(bare)}: {told}",) if bare else ())


def _why_not(folders: Sequence[RankFiles], damage: Iterable[str] = ()) -> str:
    """What was found instead of a timeline, with what is damaged of it, and how to get one."""
    found = Counter(role.value for folder in folders for role, files in folder.files.items() for _ in files)
    what = ", ".join(f"{count} {word if count == 1 else _several(word)}" for word, count in sorted(found.items()))
    if any(folder.has_events for folder in folders):
        reason = "; ".join(dict.fromkeys(damage)) or "nothing was recorded, or nothing was exported"
        return f"no file of the Ascend output holds any event ({what}): {reason}"
    how = "record with torch_npu's profiler and keep trace_view.json or its sqlite export, or msprof's msprof_*.json"
    return f"the Ascend output holds no timeline ({what}), and without one nothing can be replayed; {how}"


def _several(word: str) -> str:
    """Plural of what a file holds: tables, matrices, lists of communicators, statistics."""
    if word.startswith("list"):
        return word.replace("list", "lists", 1)
    if word.endswith("matrix"):
        return word.replace("matrix", "matrices")
    return word if word.endswith(("s", "data")) else f"{word}s"


def _usable(ranks: list[Rank], folders: Sequence[RankFiles], cluster: Cluster) -> list[Rank]:
    """Ranks that have events, or steps where no rank has a timeline. Raises where there is none, telling why."""
    timed = any(folder.has_events for folder in folders)
    stepped = {row.rank for row in cluster.steps}
    summed = [] if timed else [rank for rank in ranks if rank.steps or rank.summaries or rank.number in stepped]
    found = [rank for rank in ranks if len(rank.content.rows) or any(rank is other for other in summed)]
    seen = sum(rank.health.events for rank in ranks)
    if not found and not seen:
        raise RefusedError(_why_not(folders, (text for rank in ranks for text in rank.health.warnings)))
    if not found:
        raise TraceError(f"{ranks[0].file}: {seen} records, none of which is an event with a time and a duration")
    return found
