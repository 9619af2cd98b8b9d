"""``cluster_analysis.db``, msprof-analyze's account of a whole job, as the objects and rows of its text files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parsers.ascend.csv_rows import Row
from parsers.ascend.database import Database, opened
from parsers.ascend.database_names import known
from parsers.ascend.database_tables import STEP_PARTS, decoded, operator_key
from parsers.ascend.steps import ranks_of
from parsers.source import SourceFile

Object = dict[str, Any]
# newer releases keep sums of each operator only, in tables of other names
_TIMES = ("ClusterCommAnalyzerTime", "ClusterCommunicationTime")
_MATRICES = ("ClusterCommAnalyzerMatrix", "ClusterCommunicationMatrix")
_GROUPS = ("CommunicationGroup", "CommunicationGroupMapping")
_INDEXES = {"DP Index": "dp_index", "PP Index": "pp_index", "TP Index": "tp_index"}


@dataclass(frozen=True, slots=True)
class ClusterTables:
    """What ``cluster_step_trace_time.csv`` and the three JSON files beside it would hold, and the job's arguments."""

    steps: list[Row]
    communication: Object
    matrix: Object
    communicators: Object
    arguments: Object
    damaged: tuple[str, ...]


def read_cluster_tables(file: SourceFile) -> ClusterTables:
    """Raises :class:`TraceError` where the database cannot be read."""
    with opened(file) as database:
        return ClusterTables(
            steps=_steps(database),
            communication=_communication(database),
            matrix=_matrix(database),
            communicators={"comm_group_parallel_info": _communicators(database)},
            arguments=_arguments(database),
            damaged=tuple(database.damaged),
        )


def _steps(database: Database) -> list[Row]:
    columns = ("step", "type", "index", *_INDEXES.values(), *STEP_PARTS.values())
    labels = ("Step", "Type", "Index", *_INDEXES, *STEP_PARTS)
    rows = database.rows("ClusterStepTraceTime", columns)
    return [{label: "" if cell is None else str(cell) for label, cell in zip(labels, row, strict=True)} for row in rows]


def _communication(database: Database) -> Object:
    """Members of the communicator → step → operator → rank → its times."""
    found: Object = {}
    columns = (
        "rank_set", "step", "rank_id", "hccl_op_name", "group_name", "start_timestamp", "elapse_time", "elapsed_time",
        "transit_time",
    )  # fmt: skip
    for table in _TIMES:
        for ranks, step, rank, name, group, start, elapse, elapsed, transit in database.rows(table, columns):
            times = {
                "Start Timestamp(us)": start,
                "Elapse Time(ms)": elapsed if elapse is None else elapse,
                "Transit Time(ms)": transit,
            }
            entry = {"Communication Time Info": times, "Communication Bandwidth Info": {}}
            operators = found.setdefault(str(ranks or "collective"), {}).setdefault(str(step or "step"), {})
            operators.setdefault(operator_key(name, group), {})[str(known(rank))] = entry
    return found


def _matrix(database: Database) -> Object:
    """Members of the communicator → step → operator → link → its numbers."""
    found: Object = {}
    columns = (
        "rank_set", "step", "hccl_op_name", "group_name", "src_rank", "dst_rank", "transport_type", "transit_size",
        "transit_time", "bandwidth",
    )  # fmt: skip
    for table in _MATRICES:
        for ranks, step, name, group, source, target, transport, size, time, bandwidth in database.rows(table, columns):
            operators = found.setdefault(str(ranks or "collective"), {}).setdefault(str(step or "step"), {})
            operators.setdefault(operator_key(name, group), {})[f"{source}-{target}"] = {
                "Transport Type": transport,
                "Transit Size(MB)": size,
                "Transit Time(ms)": time,
                "Bandwidth(GB/s)": bandwidth,
            }
    return found


def _communicators(database: Database) -> list[Object]:
    found = []
    for table in _GROUPS:
        for ranks, name, number, description in database.rows(table, ("rank_set", "group_name", "group_id", "pg_name")):
            told = {"group_name": name, "group_id": number, "pg_name": description}
            found.append(
                {"rank_set": list(ranks_of(str(ranks)))} | {key: str(value) for key, value in told.items() if value}
            )
    return found


def _arguments(database: Database) -> Object:
    """The parallel sizes that the job was started with."""
    told = {str(key): decoded(value) for key, value in database.rows("ClusterBaseInfo", ("key", "value"))}
    inside = told.pop("distributed_args", None)
    return told | (inside if isinstance(inside, dict) else {})
