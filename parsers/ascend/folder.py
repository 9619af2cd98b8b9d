"""Which file of an Ascend output folder is what, told by its content, and which files are of one rank.

Names are no evidence, because wrappers rename files freely; folders are, where they bear the profiler's own names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from parsers.ascend.database import MAGIC, is_cluster, is_profile, is_statistics, rank_in_name, ranks_in, tables_of
from parsers.ascend.slices import runs_of
from parsers.ascend.text import text_of
from parsers.source import SourceFile
from replay.trace import MISSING


class Role(Enum):
    """What a file holds; values are the words used in messages."""

    TIMELINE = "timeline"
    KERNELS = "kernel table"
    COMMUNICATION = "communication statistics"
    MATRIX = "communication matrix"
    STEPS = "step table"
    INFO = "profiler settings"
    METADATA = "profiler metadata"
    TASKS = "task table"
    MEMORY = "memory table"
    SUMMARY = "summary table"
    TABLE = "statistics table"
    DATABASE = "sqlite export"
    STATISTICS = "sqlite statistics"
    CLUSTER_DATABASE = "cluster database"
    CLUSTER_STEPS = "cluster step table"
    CLUSTER_COMMUNICATION = "cluster communication statistics"
    CLUSTER_MATRIX = "cluster communication matrix"
    COMMUNICATORS = "list of communicators"


RECORDINGS = (Role.TIMELINE, Role.KERNELS, Role.TASKS, Role.DATABASE)
"""Roles of files that hold ops."""

CLUSTER = (
    Role.CLUSTER_STEPS,
    Role.CLUSTER_COMMUNICATION,
    Role.CLUSTER_MATRIX,
    Role.COMMUNICATORS,
    Role.CLUSTER_DATABASE,
)
_CLUSTER_FOLDER = "cluster_analysis_output"
_OF_CLUSTER_FOLDER = {
    Role.COMMUNICATION: Role.CLUSTER_COMMUNICATION,
    Role.MATRIX: Role.CLUSTER_MATRIX,
    Role.STEPS: Role.CLUSTER_STEPS,
}
_OUTPUTS = ("ascend_profiler_output", "mindstudio_profiler_output", "analyze", "timeline", "summary")
# MindSpore before 2.4 puts the files of all ranks of a node into one folder; their names tell them apart.
_OF_ALL_RANKS = re.compile(
    r"^(?:ascend_timeline_(?:display|summary)|step_trace_raw|hccl_raw|output_timeline_data|framework_raw"
    r"|aicore_intermediate|aicpu_intermediate|flops(?:_summary)?|minddata_pipeline_raw)_\d"
)
_RANK_IN_NAME = re.compile(r"^[a-z_]+_(\d+)(?=[_.])")
_SETTINGS = re.compile(r"^profiler_info(?:_\d+)?\.json")
_RANK_FOLDER = re.compile(r"_ascend_(?:pt|ms)$", re.IGNORECASE)
_DEVICE_FOLDER = re.compile(r"^device_(\d{1,4})$", re.IGNORECASE)
_RAW_FOLDER = re.compile(r"^PROF_\d+|^FRAMEWORK$", re.IGNORECASE)
_LIST = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\[")
_OWN_WORDS = (
    rb'"(?:Ascend Hardware|Task Scheduler|Overlap Analysis|CANN)"'
    rb'|"(?:AscendCL|Node|Hccl|HCCL|Communication|Runtime|Dequeue)@'
    rb'|"(?:async_npu|async_task_queue|HostToDevice)"|"Physic Stream Id"|"cat"\s*:\s*"(?:en|de)queue"'
)
_OWN = re.compile(_OWN_WORDS)
_OPERATORS = re.compile(  # what a list of operators alone shows
    rb'"ts"\s*:\s*"\d{15,17}\.\d{1,3}"|"Input (?:Dims|type)"\s*:\s*"|"args"\s*:\s*\{\s*"Sequence number"'
)
_KINETO = re.compile(  # whose operators may begin in the same way
    rb'"(?:External id|Record function id|Ev Idx)"\s*:|"cat"\s*:\s*"(?:kernel|ac2g|(?:cuda|hip|gpu|xpu)_\w+)"'
)
_TRACE = re.compile(rb'"(?:traceEvents|schemaVersion)"')  # lists of groups may fill the head before the events
_HEADERS: tuple[tuple[Role, tuple[bytes, ...]], ...] = (
    (Role.CLUSTER_STEPS, (b"Type", b"Index", b"Computing", b"Communication(Not Overlapped)")),
    (Role.STEPS, (b"Computing", b"Communication(Not Overlapped)")),
    (Role.STEPS, (b"Iteration ID", b"Iteration Time(us)")),
    (Role.STEPS, (b"step_num", b"start_point", b"fp_point")),
    (Role.KERNELS, (b"Start Time(us)", b"Duration(us)", b"Accelerator Core")),
    (Role.KERNELS, (b"Start Time(us)", b"Duration(us)", b"Name", b"Type", b"Wait Time(us)")),
    (Role.KERNELS, (b"Op Name", b"Task Start Time(us)", b"Task Duration(us)")),
    (Role.TASKS, (b"kernel_name", b"task_time(us)", b"task_start(us)")),
    (Role.TASKS, (b"op_name", b"stream_id", b"start_time(us)", b"duration(ms)")),
    (Role.SUMMARY, (b"OP Type", b"Count", b"Total Time(us)")),
    (Role.SUMMARY, (b"API Name", b"Level", b"Count")),
    (Role.TABLE, (b"Host Self Duration(us)",)),
    (Role.TABLE, (b"kernel_name", b"stream_id")),
    (Role.MEMORY, (b"Component", b"Timestamp(us)", b"Total Allocated(MB)")),
    (Role.TABLE, (b"Component", b"Timestamp(us)")),
    (Role.TABLE, (b"Device Type", b"Size(KB)")),
    (Role.TABLE, (b"Op Name", b"Graph ID", b"Size(KB)")),
    (Role.TABLE, (b"Component", b"Total Reserved")),
    (Role.TABLE, (b"full_op_name", b"execution_frequency")),
    (Role.TABLE, (b"op_type", b"total_time", b"execution_frequency")),
    (Role.TABLE, (b"serial_number", b"dispatch_time", b"run_start")),
    (Role.TABLE, (b"step_num", b"communication_cost", b"wait_cost")),
    (Role.TABLE, (b"full_op_name", b"kernel_type", b"op_info")),
    (Role.TABLE, (b"full_op_name", b"FLOPs")),
)
# Of all ranks, by the ranks of each communicator: "(0, 1)", or "p2p"; of one rank, by steps or operators.
_OF_CLUSTER = rb'\A\s*\{\s*"(?:\(\d+(?:,\s*\d+)*,?\s*\)|p2p|collective)"\s*:\s*\{'
_KEYS: tuple[tuple[Role, re.Pattern[bytes]], ...] = (
    (Role.COMMUNICATORS, re.compile(rb'\A\s*\{\s*"(?:collective|p2p)"\s*:\s*\[|"comm_group_parallel_info"')),
    (Role.CLUSTER_COMMUNICATION, re.compile(_OF_CLUSTER + rb'.*"Communication Time Info"', re.DOTALL)),
    (Role.CLUSTER_MATRIX, re.compile(_OF_CLUSTER + rb'.*"Transport Type"', re.DOTALL)),
    (Role.CLUSTER_COMMUNICATION, re.compile(rb'"\d+"\s*:\s*\{\s*"Communication Time Info"')),  # by rank
    (Role.COMMUNICATION, re.compile(rb'"Communication Time Info"')),
    (Role.MATRIX, re.compile(rb'"Transport Type"\s*:.*"Transit Size\(MB\)"', re.DOTALL)),
    (Role.INFO, re.compile(rb'"experimental_config"|"torch_npu_version"|"cann_version"|"profiler_level"|"ms_version"')),
    (Role.INFO, re.compile(rb'"DeviceInfo"\s*:.*"platform_version"|"platform_version"\s*:.*"DeviceInfo"', re.DOTALL)),
    (Role.METADATA, re.compile(rb'"ENV_VARIABLES"|"parallel_group_info"|"distributed_args"')),
)
_EXPORT = re.compile(r"^(?:ascend_[a-z]+_profiler|msprof)\w*\.db", re.IGNORECASE)


_REPEATED = "files that repeat others of their rank"
_OF_NOBODY = "files beside several timelines, which do not tell whose they are"


def role_of(head: bytes) -> Role | None:
    """Role of a file by its first bytes, ``None`` where they do not show an Ascend output.

    What a database holds shows only when it is opened: see :func:`role_of_file`.
    """
    if _LIST.match(head):
        operators = _OPERATORS.search(head) and not _KINETO.search(head)
        return Role.TIMELINE if operators or _OWN.search(head) else None
    head = text_of(head).encode().lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"{"):
        if _TRACE.search(head):  # as viewers save what they have opened; every GPU trace has operators
            return Role.TIMELINE if _OWN.search(head) else None
        return next((role for role, pattern in _KEYS if pattern.search(head)), None)
    header = head.split(b"\n", 1)[0]
    return next((role for role, words in _HEADERS if all(word in header for word in words)), None)


def is_settings(name: str) -> bool:
    """True for the file whose name tells a rank even where its content is damaged."""
    return bool(_SETTINGS.match(name))


def role_of_file(file: SourceFile) -> Role | None:
    """Role of a file by its content, ``None`` where it is no Ascend output."""
    head = file.head()
    if not head.startswith(MAGIC):
        role = role_of(head) or (Role.INFO if is_settings(file.name) else None)
        return _OF_CLUSTER_FOLDER.get(role, role) if file.folder.name == _CLUSTER_FOLDER and role else role
    tables = tables_of(file)
    if tables is None:  # reading it says what is wrong
        return Role.DATABASE if _EXPORT.match(file.name) else None
    if is_profile(tables):
        return Role.DATABASE
    if is_cluster(tables):
        return Role.CLUSTER_DATABASE
    return Role.STATISTICS if is_statistics(tables) else None


@dataclass(slots=True)
class RankFiles:
    """Files of one rank; slices of one timeline are in order."""

    folder: Path
    timelines: list[SourceFile] = field(default_factory=list)
    export: SourceFile | None = None  # the sqlite export of the rank's events
    files: dict[Role, list[SourceFile]] = field(default_factory=dict)
    alike: bool = False  # whether files of other ranks bear the same names

    @property
    def has_events(self) -> bool:
        """Whether there is a timeline or an export."""
        return bool(self.timelines) or self.export is not None

    def of(self, role: Role) -> list[SourceFile]:
        """Files of one role."""
        return self.files.get(role, [])

    def name_of(self, file: SourceFile) -> str:
        """Name by which messages tell one of the files."""
        return name_in_rank(file) if self.alike else file.name

    def names(self) -> set[str]:
        """Names of all files."""
        return {file.name for own in (self.timelines, *self.files.values()) for file in own}


def group(files: Sequence[SourceFile]) -> tuple[list[RankFiles], Counter[str]]:
    """Files by rank, in order of folders; and how many were left out, by reason.

    Where a profiler put its output beside the raw folder of msprof, msprof's own export says the same again.
    """
    roles = {file: role for file in files if (role := role_of_file(file)) is not None}
    mixed = {file.folder for file in roles if _OF_ALL_RANKS.match(file.name)}
    by_folder: dict[Path, RankFiles] = {}
    for file, role in roles.items():
        folder = _rank_folder(file)
        number = _RANK_IN_NAME.search(file.name) if file.folder in mixed else None
        folder = folder / f"rank_{number[1]}" if number else folder
        rank = by_folder.setdefault(folder, RankFiles(folder))
        rank.files.setdefault(role, []).append(file)
    _give_devices(by_folder)
    left_out: Counter[str] = Counter()
    found = [part for folder in sorted(by_folder, key=_natural) for part in _ranks_of(by_folder[folder], left_out)]
    names = Counter(name for rank in found for name in rank.names())
    for rank in found:
        rank.alike = any(names[name] > 1 for name in rank.names())
    return found, +left_out


def _ranks_of(rank: RankFiles, left_out: Counter[str]) -> list[RankFiles]:
    """The files of one folder without those that repeat others, apart where they are of several ranks."""
    for role, own in rank.files.items():
        rank.files[role] = [file for file in own if not _is_raw(file, rank.folder)] or own
        left_out[_REPEATED] += len(own) - len(rank.files[role])
    runs, doubles = runs_of(rank.of(Role.TIMELINE))
    exports = _exports(rank.of(Role.DATABASE))
    left_out[_REPEATED] += doubles + len(rank.of(Role.DATABASE)) - len(exports)
    if len(runs) <= 1 and len(exports) <= 1:
        rank.timelines = runs[0] if runs else []
        rank.export = exports[0] if exports else None
        return [rank]
    beside = sum(len(own) for role, own in rank.files.items() if role not in (Role.TIMELINE, Role.DATABASE))
    left_out[_OF_NOBODY] += beside + (len(exports) if runs else 0)
    if runs:
        return [RankFiles(rank.folder / run[0].name, run) for run in runs]
    return [RankFiles(rank.folder / export.name, export=export) for export in exports]


def _natural(folder: Path) -> list[str | int]:
    """Key by which folder 2 comes before folder 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(folder))]


def _give_devices(by_folder: dict[Path, RankFiles]) -> None:
    """What msprof says of a device belongs to the recording, unless the device has output of its own."""
    bare = [folder for folder, rank in by_folder.items() if rank.files.keys() == {Role.INFO}]
    for folder in bare:
        recording = by_folder.get(folder.parent)
        if _DEVICE_FOLDER.match(folder.name) and recording is not None:
            recording.files.setdefault(Role.INFO, []).extend(by_folder.pop(folder).of(Role.INFO))


def device_of(folder: Path) -> int:
    """Number of the device that a folder is of by its name (``device_3``), -1 none."""
    found = _DEVICE_FOLDER.match(folder.name)
    return int(found[1]) if found else MISSING


def _rank_folder(file: SourceFile) -> Path:
    """Folder that stands for the rank: the ``*_ascend_pt`` above a file, else the one that holds the output folder."""
    folder = file.folder
    marked = next((above for above in (folder, *folder.parents) if _RANK_FOLDER.search(above.name)), None)
    if marked is not None:
        return marked
    return folder.parent if folder.name.lower() in _OUTPUTS else folder


def name_in_rank(file: SourceFile) -> str:
    """Name of a file with the folder of its rank: every rank's files bear the same names."""
    folder = _rank_folder(file).name
    return f"{folder}/{file.name}" if folder else file.name


def _is_raw(file: SourceFile, folder: Path) -> bool:
    return any(_RAW_FOLDER.match(part) for part in file.folder.parts[len(folder.parts) :])


def _exports(databases: Sequence[SourceFile]) -> list[SourceFile]:
    """One export for each rank that a file name tells, and of the others the newest of each set of ranks and devices.

    msprof writes another at every export, and a file may have been renamed.
    """
    named = {rank: file for file in databases if (rank := rank_in_name(file.name)) >= 0}
    others = sorted((file for file in databases if rank_in_name(file.name) < 0), key=lambda file: file.name)
    if len(databases) < 2 or not others:
        return list(named.values()) or others
    told = {ranks_in(file) for file in named.values()}
    newest = {ranks: file for file in others if (ranks := ranks_in(file)) not in told and (ranks or not named)}
    return [*named.values(), *newest.values()]
