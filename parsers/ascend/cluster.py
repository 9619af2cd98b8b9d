"""What msprof-analyze wrote of a whole job (``cluster_analysis_output``): groups, steps and collectives of every rank.

Beside the ranks' own folders it tells members, world and sizes; alone it can be looked at, since it says what ran when,
but not what started it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from parsers.ascend.communication import CommStatistics, operators
from parsers.ascend.communicators import communicator_id
from parsers.ascend.csv_rows import Losses, Row, table_rows
from parsers.ascend.database_cluster import ClusterTables, read_cluster_tables
from parsers.ascend.folder import CLUSTER, RankFiles, Role
from parsers.ascend.json_files import as_dict, as_ranks, read_objects
from parsers.ascend.matrix import links_of
from parsers.ascend.settings import stated_sizes
from parsers.ascend.steps import ranks_of, step_row
from parsers.ascend.text import cell, rank_number
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.trace import MISSING, Group, StepTableRow

_RANKS_KEY = re.compile(r"^\(\s*\d+(?:\s*,\s*\d+)*\s*,?\s*\)$")  # "(0, 1)"
_OBJECTS = {  # role → what a database tells instead
    Role.CLUSTER_COMMUNICATION: "communication",
    Role.CLUSTER_MATRIX: "matrix",
    Role.COMMUNICATORS: "communicators",
}
_INDEXES = {"TP Index": "tp", "PP Index": "pp", "DP Index": "dp"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts of a job; ``rank_sets`` are the members of groups whose id is not told."""

    groups: tuple[Group, ...] = ()
    rank_sets: tuple[tuple[int, ...], ...] = ()
    statistics: Mapping[int, list[CommStatistics]] = field(default_factory=dict)  # by rank
    steps: tuple[StepTableRow, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank met."""
        members = {rank for ranks in (*self.rank_sets, *(group.ranks for group in self.groups)) for rank in ranks}
        stepped = {row.rank for row in self.steps if row.rank >= 0}
        return tuple(sorted(members | stepped | self.statistics.keys()))


def read_cluster(folders: Sequence[RankFiles], losses: Losses) -> Cluster:
    """The cluster's files among those of ``folders``."""
    of = {role: [file for folder in folders for file in folder.of(role)] for role in CLUSTER}
    if not any(of.values()):
        return Cluster()
    databases = _databases(of[Role.CLUSTER_DATABASE], losses)
    objects = {role: read_objects(of[role], losses.damaged) for role in _OBJECTS}
    for role, told in _OBJECTS.items():
        objects[role] = objects[role] or [(name, getattr(tables, told)) for name, tables in databases]
    statistics: dict[int, list[CommStatistics]] = defaultdict(list)
    for _, value in objects[Role.CLUSTER_COMMUNICATION]:
        for row in operators(value):
            if row.rank >= 0:
                statistics[row.rank].append(row)
    listed, sets = _communicators(value for _, value in objects[Role.COMMUNICATORS])
    keyed = objects[Role.CLUSTER_COMMUNICATION] + objects[Role.CLUSTER_MATRIX]
    groups = {group.name: group for _, value in keyed for group in _by_ranks(value)} | listed
    rows = list(table_rows(of[Role.CLUSTER_STEPS], losses)) or [row for _, own in databases for row in own.steps]
    sizes = {size: number for _, own in databases for size, number in stated_sizes(own.arguments).items()}
    steps = [row for row in map(_step, rows) if row.rank >= 0 or row.stage]
    losses.dropped["cluster steps of no rank and no stage"] += len(rows) - len(steps)
    return Cluster(
        groups=tuple(groups.values()),
        rank_sets=tuple(dict.fromkeys(sets)),
        statistics=dict(statistics),
        steps=tuple(steps),
        sizes=sizes or _sizes(rows),
        files=tuple(file.name for role in CLUSTER for file in of[role]),
    )


def _databases(files: Sequence[SourceFile], losses: Losses) -> list[tuple[str, ClusterTables]]:
    """Tables of every ``cluster_analysis.db``; text beside one says the same and is taken first."""
    found = []
    for file in files:
        try:
            found.append((file.name, read_cluster_tables(file)))
            losses.damaged += found[-1][1].damaged
        except TraceError as error:
            losses.damaged.append(str(error))
    return found


def matched(
    rank_sets: Iterable[tuple[int, ...]], users: Mapping[str, set[int]], sizes: Mapping[str, int]
) -> list[Group]:
    """Groups whose members can only be one of the sets: one of their size that holds every rank seen in them."""
    found = []
    for name, seen in users.items():
        fitting = {ranks for ranks in rank_sets if seen <= set(ranks) and len(ranks) == sizes.get(name)}
        if len(fitting) == 1:
            (ranks,) = fitting
            found.append(Group(name, "", ranks, len(ranks)))
    return found


def _communicators(objects: Iterable[Mapping[str, object]]) -> tuple[dict[str, Group], list[tuple[int, ...]]]:
    """Groups by id, which newer releases tell, and the sets of ranks of all."""
    groups: dict[str, Group] = {}
    sets: list[tuple[int, ...]] = []
    for value in objects:
        lists = [value.get("collective"), value.get("p2p")]
        sets += [tuple(sorted(as_ranks(ranks))) for own in lists if isinstance(own, list) for ranks in own]
        told = value.get("comm_group_parallel_info")
        for entry in map(as_dict, told if isinstance(told, list) else ()):
            ranks = as_ranks(entry.get("rank_set"))
            name = str(entry.get("group_name") or "") or communicator_id(str(entry.get("group_id") or ""))
            if name and ranks:
                groups[name] = Group(name, str(entry.get("pg_name") or ""), ranks, len(ranks))
    return groups, [ranks for ranks in sets if ranks]


def _by_ranks(value: Mapping[str, object]) -> list[Group]:
    """Groups below the keys that are their members."""
    found = []
    for key, level in value.items():
        if _RANKS_KEY.match(key):
            ranks = ranks_of(key)
            below = {row.group for row in operators(as_dict(level))} | {link.group for link in links_of(as_dict(level))}
            found += [Group(name, "", ranks, len(ranks)) for name in below if name]
    return found


def _step(row: Row) -> StepTableRow:
    """A row of one rank, or of the ranks of one pipeline stage, which holds the largest value of each part."""
    index = cell(row.get("Index"))
    if cell(row.get("Type")).lower() == "stage":
        return step_row(row, MISSING, stage=ranks_of(index))
    return step_row(row, rank_number(index))


def _sizes(rows: Sequence[Row]) -> dict[str, int]:
    """Parallel sizes by the indexes of all ranks, where every one has some."""
    of_ranks = [row for row in rows if cell(row.get("Type")).lower() == "rank"]
    found = {}
    for column, size in _INDEXES.items():
        indexes = {rank_number(row.get(column)) for row in of_ranks}
        if indexes and MISSING not in indexes:
            found[size] = max(indexes) + 1
    return found
