"""What the sqlite files of a rank say: an export its timeline, statistics what text files say beside one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parsers.ascend.csv_rows import Row
from parsers.ascend.database import opened
from parsers.ascend.database_events import read_export
from parsers.ascend.database_names import Names
from parsers.ascend.database_tables import communication, matrix, memory, metadata, rank_of_device, steps
from parsers.ascend.events import Timeline
from parsers.ascend.folder import Role
from parsers.ascend.json_files import Objects
from parsers.source import SourceFile


@dataclass(frozen=True, slots=True)
class Profile:
    """One export of a recording; ``ranks`` are those of its devices as far as it says."""

    file: str
    timeline: Timeline
    kernels: list[Row]
    memory: list[Row]
    metadata: dict[str, object]
    ranks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Communication statistics and steps of a rank (``analysis.db``), and a sentence for what could not be read."""

    objects: Objects
    steps: list[Row]
    damaged: tuple[str, ...]


def read_profile(file: SourceFile) -> Profile:
    """Raises :class:`TraceError` where the file is no readable database, or its export was not finished."""
    with opened(file) as database:
        names = Names(database)
        peaks, told = memory(database, names), metadata(database)  # first: damage is told with the timeline
        export = read_export(database, names)
        ranks = {device: rank_of_device(database, device) for device in export.devices if device >= 0}
        return Profile(file.name, export.timeline, export.kernels, peaks, told, ranks)


def read_statistics(files: Sequence[SourceFile], recorded_us: float) -> Statistics:
    """All statistics of a rank; ``recorded_us`` is how long its timeline lasts, 0 unknown."""
    objects: dict[Role, list[tuple[str, dict[str, object]]]] = {Role.COMMUNICATION: [], Role.MATRIX: []}
    rows: list[Row] = []
    damaged: list[str] = []
    for file in files:
        with opened(file) as database:
            objects[Role.COMMUNICATION].append((file.name, communication(database)))
            objects[Role.MATRIX].append((file.name, matrix(database)))
            rows += steps(database, recorded_us)
            damaged += database.damaged
    return Statistics(objects, rows, tuple(damaged))
