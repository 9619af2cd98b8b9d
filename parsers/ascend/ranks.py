"""Ranks of an Ascend profile: what the files of each one hold, before all of them are put together.

Where there is no timeline, tables tell what ran; those of msprof may be of several devices, and each is a rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from parsers._ranks import rank_in_name
from parsers.ascend.cluster import Cluster
from parsers.ascend.csv_rows import Losses
from parsers.ascend.described import Described, read_described
from parsers.ascend.devices import by_device
from parsers.ascend.events import Timeline
from parsers.ascend.exports import read_statistics
from parsers.ascend.folder import RankFiles, Role, device_of
from parsers.ascend.kernels import KernelRow, kernels_of, read_kernels
from parsers.ascend.memory import peaks_of, read_memory
from parsers.ascend.recorded import Recording, read_recording
from parsers.ascend.rows import AscendContent, read_rows
from parsers.ascend.settings import Settings
from parsers.ascend.steps import read_steps, step_row
from parsers.ascend.summaries import read_summaries
from parsers.ascend.tabled import tabled_rows
from parsers.ascend.text import rank_number
from replay.core.errors import TraceError
from replay.core.units import NS_PER_US
from replay.trace import MISSING, Health, MemoryPeak, StepTableRow, SummaryRow

OF_OPS = (
    Role.KERNELS,
    Role.TASKS,
    Role.COMMUNICATION,
    Role.STEPS,
    Role.STATISTICS,
    Role.SUMMARY,
)  # what tells of ops or steps without a timeline


@dataclass(frozen=True, slots=True)
class Rank:
    """Everything read of one rank; the timeline's file may be several slices."""

    file: str
    number: int  # -1 where nothing tells it
    described: Described
    content: AscendContent
    kernels: list[KernelRow]
    steps: tuple[StepTableRow, ...]
    health: Health
    folder: Path = Path()
    memory: tuple[MemoryPeak, ...] = ()
    summaries: tuple[SummaryRow, ...] = ()


def read_folder(folder: RankFiles, piece_bytes: int, *, keep_modules: bool) -> list[Rank]:
    """What a folder holds: one rank, or one for each device where its timeline or its tables are of several."""
    if not folder.has_events:
        name = next(folder.name_of(file) for role in OF_OPS for file in folder.of(role))
        rank, losses = _beside(folder, Recording(name, Timeline()), 0.0), Losses()
        summaries = read_summaries(folder.of(Role.SUMMARY), rank.number, losses)
        return _by_device(replace(rank, summaries=summaries, health=rank.health.merged(losses.health())))
    recording = read_recording(folder, piece_bytes)
    parts = [(part, read_rows(part, keep_modules=keep_modules)) for part in by_device(recording.timeline)]
    rank = _beside(folder, recording, max(_lasting_us(content) for _, content in parts))
    ranks = [replace(rank, content=content, health=_health(part, content)) for part, content in parts]
    ranks[0] = replace(ranks[0], health=ranks[0].health.merged(rank.health))
    return ranks if len(ranks) == 1 else [_of_device(rank, recording) for rank in ranks]


def _beside(folder: RankFiles, recording: Recording, lasting_us: float) -> Rank:
    """The rank without its events: what the files beside a timeline tell, else the export of the recording.

    ``lasting_us`` is how long the recording lasts, 0 unknown.
    """
    losses = Losses()
    statistics = read_statistics(folder.of(Role.STATISTICS), lasting_us)
    described = read_described(folder, more={**recording.objects, **statistics.objects})
    kernels = read_kernels(folder, losses) or kernels_of(recording.kernels, losses)
    told = described.settings.rank
    number = told if told != MISSING else rank_in_name(folder.folder.name)
    steps = read_steps(folder.of(Role.STEPS), number, losses)
    steps = steps or tuple(step_row(row, number) for row in statistics.steps)
    memory = read_memory(folder.of(Role.MEMORY), number, losses) or peaks_of(recording.memory, number)
    unused = {recording.unused: 1} if recording.unused else {}
    noted = Health(skipped=unused, warnings=(*described.damaged, *statistics.damaged))
    nothing = tabled_rows([], [])
    health = losses.health().merged(noted)
    return Rank(recording.file, number, described, nothing, kernels, steps, health, folder.folder, memory)


def _of_device(rank: Rank, recording: Recording) -> Rank:
    """One of several ranks that share their files; what does not tell whose it is is nobody's."""
    device = rank.content.device
    told = recording.ranks.get(device, MISSING)
    settings = replace(rank.described.settings, rank=MISSING)
    return replace(
        rank,
        number=told if told >= 0 else rank.described.devices.get(device, MISSING),
        described=replace(rank.described, settings=settings, statistics=[]),
        kernels=[row for row in rank.kernels if row.device == device],
        steps=(),
        memory=(),
    )


def _lasting_us(content: AscendContent) -> float:
    rows = content.rows
    return float((rows.start_ns + rows.dur_ns).max() - rows.start_ns.min()) / NS_PER_US if len(rows) else 0.0


def rank_of_cluster(number: int, cluster: Cluster) -> Rank:
    """A rank that only the cluster's files know."""
    statistics = cluster.statistics.get(number, [])
    content = tabled_rows([], statistics)
    described = Described(Settings(number), statistics, {}, ())
    return Rank(cluster.files[0], number, described, content, [], (), _tabled_health(content))


def numbered(ranks: list[Rank]) -> list[Rank]:
    """Ranks that no file tells are told by the folders above, or by their devices, if those tell all of them apart.

    Raises :class:`TraceError` naming two folders of one rank (a profiler leaves one for every time it recorded), or one
    that is of no rank where others are.
    """
    told = [rank for rank in ranks if rank.number != MISSING]
    first_of = {rank.number: rank for rank in reversed(told)}
    for rank in told:
        if first_of[rank.number] is not rank:
            one, other = first_of[rank.number].folder.name, rank.folder.name
            raise TraceError(f"{one} and {other} are both of rank {rank.number}; give one recording of each rank")
    if len(told) == len(ranks):
        return ranks
    first = {rank.number - rank.content.device for rank in told if rank.content.device >= 0} or {0}
    above = [rank.number if rank.number >= 0 else _above(rank.folder) for rank in ranks]
    devices = [rank.number if rank.number >= 0 else _by_first(rank.content.device, first) for rank in ranks]
    for how, numbers in (("folders", above), ("devices", devices)):
        if MISSING not in numbers and len(set(numbers)) == len(ranks):
            inferred = Health(inferred={f"ranks told by their {how}": 1})
            return [
                rank if rank.number >= 0 else replace(rank, number=number, health=rank.health.merged(inferred))
                for rank, number in zip(ranks, numbers, strict=True)
            ]
    untold = next(rank.folder.name for rank in ranks if rank.number == MISSING)
    if told:
        raise TraceError(
            f"nothing in {untold} tells its rank, though other folders have theirs; put its profiler_info_<rank>.json "
            "back, or name it rank_<rank>"
        )
    return ranks


def _by_first(device: int, first: set[int]) -> int:
    """Rank of a device where the ranks that are told agree on the one of device 0."""
    return device + min(first) if device >= 0 and len(first) == 1 else MISSING


def _above(folder: Path) -> int:
    """Rank that the nearest folder above tells: ``rank_3/PROF_000001_…``; a name that is a number alone is one, too."""
    if folder.name.isdecimal():
        return rank_number(folder.name)
    told = (rank_in_name(part) for part in reversed(folder.parts))
    return next((number for number in told if number != MISSING), MISSING)


def _by_device(rank: Rank) -> list[Rank]:
    """The rank with the events of its tables; one each where they are of several devices."""
    devices = sorted({row.device for row in rank.kernels if row.device >= 0}) or [device_of(rank.folder)]
    if len(devices) == 1:
        content = tabled_rows(rank.kernels, rank.described.statistics, devices[0])
        return [replace(rank, content=content, health=rank.health.merged(_tabled_health(content)))]
    nobody = replace(rank.described, statistics=[])  # nothing tells whose they are
    found: list[Rank] = []
    for device in devices:
        own = [row for row in rank.kernels if row.device == device]
        content = tabled_rows(own, [], device)
        health = _tabled_health(content) if found else rank.health.merged(_tabled_health(content))
        found.append(
            replace(
                rank,
                number=nobody.devices.get(device, MISSING),
                described=nobody,
                content=content,
                kernels=own,
                steps=(),
                memory=(),
                summaries=(),
                health=health,
            )
        )
    return found


def _tabled_health(content: AscendContent) -> Health:
    """Rows that tables gave, and those that have no place in time."""
    return Health(events=len(content.rows) + content.dropped.total(), dropped=dict(content.dropped))


def _health(timeline: Timeline, content: AscendContent) -> Health:
    cut = (f"{name} ends in the middle; the events before are used" for name in timeline.cut_short)
    return Health(
        events=timeline.losses.seen,
        dropped=dict(timeline.losses.dropped + content.dropped),
        skipped=dict(timeline.skipped + content.skipped),
        clipped=dict(timeline.losses.repaired),
        inferred=dict(content.inferred),
        warnings=(*cut, *timeline.notes),
        cut_short=tuple(timeline.cut_short),
    )
