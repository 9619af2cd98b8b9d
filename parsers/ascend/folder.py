"""Which file of an Ascend output folder is what, told by its content, and which files are of one rank.

Names are no evidence, because wrappers rename files freely; folders are, where they bear the profiler's own names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from parsers.source import SourceFile


class Role(Enum):
    """What a file holds; values are the words used in messages."""

    TIMELINE = "timeline"
    KERNELS = "kernel table"
    COMMUNICATION = "communication statistics"
    MATRIX = "communication matrix"
    STEPS = "step table"
    INFO = "profiler settings"
    METADATA = "profiler metadata"
    TABLE = "statistics table"
    DATABASE = "sqlite export"


_OUTPUTS = ("ascend_profiler_output", "mindstudio_profiler_output", "analyze", "timeline", "summary")
_RANK_FOLDER = re.compile(r"_ascend_(?:pt|ms)$", re.IGNORECASE)
_RAW_FOLDER = re.compile(r"^PROF_\d+|^FRAMEWORK$", re.IGNORECASE)
_LIST = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\[")
_TIMELINE = re.compile(
    rb'"(?:Ascend Hardware|Overlap Analysis|CANN)"|"(?:AscendCL|Node|Hccl|HCCL|Communication|Runtime|Dequeue)@'
    rb'|"(?:async_npu|async_task_queue|HostToDevice)"|"Physic Stream Id"|"ts"\s*:\s*"\d{15,17}\.\d{1,3}"'
)
_HEADERS: tuple[tuple[Role, tuple[bytes, ...]], ...] = (
    (Role.STEPS, (b"Computing", b"Communication(Not Overlapped)", b"Overlapped")),
    (Role.KERNELS, (b"Accelerator Core", b"Start Time(us)")),
    (Role.KERNELS, (b"OP Type", b"Task Type", b"Task Start Time(us)")),
    (Role.TABLE, (b"Core Type", b"OP Type", b"Total Time(us)")),
    (Role.TABLE, (b"API Name", b"Level")),
    (Role.TABLE, (b"Host Self Duration(us)",)),
    (Role.TABLE, (b"kernel_name", b"stream_id")),
    (Role.TABLE, (b"OP Type", b"Total Time(us)", b"Ratio(%)")),
    (Role.TABLE, (b"Component", b"Timestamp(us)")),
    (Role.TABLE, (b"Device Type", b"Size(KB)")),
    (Role.TABLE, (b"Op Name", b"Graph ID", b"Size(KB)")),
    (Role.TABLE, (b"Component", b"Total Reserved")),
)
_KEYS: tuple[tuple[Role, re.Pattern[bytes]], ...] = (
    (Role.COMMUNICATION, re.compile(rb'"Communication Time Info"')),
    (Role.MATRIX, re.compile(rb'"Transport Type"\s*:.*"Transit Size\(MB\)"', re.DOTALL)),
    (Role.INFO, re.compile(rb'"experimental_config"|"torch_npu_version"|"cann_version"|"profiler_level"')),
    (Role.METADATA, re.compile(rb'"ENV_VARIABLES"|"parallel_group_info"|"distributed_args"')),
)
_SQLITE = b"SQLite format 3\0"
_TABLES = re.compile(rb"STRING_IDS|PYTORCH_API|CANN_API|COMPUTE_TASK_INFO|CommAnalyzer|StepTraceTime|COMMUNICATION_OP")


def role_of(head: bytes) -> Role | None:
    """Role of a file by its first bytes, ``None`` where it is no Ascend output."""
    if head.startswith(_SQLITE):
        return Role.DATABASE if _TABLES.search(head) else None
    if _LIST.match(head):
        return Role.TIMELINE if _TIMELINE.search(head) else None
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        if b'"traceEvents"' in head:
            return None
        return next((role for role, pattern in _KEYS if pattern.search(head)), None)
    header = head.split(b"\n", 1)[0]
    return next((role for role, words in _HEADERS if all(word in header for word in words)), None)


@dataclass(slots=True)
class RankFiles:
    """Files of one rank; slices of one timeline are in order."""

    folder: Path
    timelines: list[SourceFile] = field(default_factory=list)
    files: dict[Role, list[SourceFile]] = field(default_factory=dict)

    def of(self, role: Role) -> list[SourceFile]:
        """Files of one role."""
        return self.files.get(role, [])


def group(files: Sequence[SourceFile]) -> tuple[list[RankFiles], int]:
    """Files by rank, in order of folders; and how many timelines repeat what another one of their rank holds."""
    by_folder: dict[Path, RankFiles] = {}
    for file in files:
        role = role_of(file.head())
        if role is None:
            continue
        folder = rank_folder(_full(file))
        rank = by_folder.setdefault(folder, RankFiles(folder))
        rank.files.setdefault(role, []).append(file)
    found: list[RankFiles] = []
    repeated = 0
    for folder in sorted(by_folder):
        ranks, doubles = _timelines(by_folder[folder])
        found += ranks
        repeated += doubles
    return found, repeated


def rank_folder(path: Path) -> Path:
    """Folder that stands for the rank: the ``*_ascend_pt`` above a file, else the one that holds the output folder."""
    marked = next((parent for parent in path.parents if _RANK_FOLDER.search(parent.name)), None)
    if marked is not None:
        return marked
    folder = path.parent
    return folder.parent if folder.name.lower() in _OUTPUTS else folder


def _full(file: SourceFile) -> Path:
    return file.path / file.location if file.span else file.path


def _timelines(rank: RankFiles) -> tuple[list[RankFiles], int]:
    """One entry per timeline: slices are one, the profiler's own output wins over msprof's of the same run."""
    timelines = rank.of(Role.TIMELINE)
    own = [file for file in timelines if not any(_RAW_FOLDER.match(part) for part in _full(file).parts)]
    kept = own or timelines
    repeated = len(timelines) - len(kept)
    slices = [file for file in kept if re.search(r"slice|msprof", file.name, re.IGNORECASE)]
    rest = [file for file in kept if file not in slices]
    if slices:
        whole = [file for file in slices if "slice" not in file.name.lower()]
        parts = [file for file in slices if file not in whole]
        repeated += len(whole) if parts and whole else 0
        slices = sorted(parts, key=_slice_number) or slices
    if len(rest) + bool(slices) <= 1:
        rank.timelines = slices or rest
        return [rank], repeated
    runs = [[file] for file in rest] + ([slices] if slices else [])
    return [RankFiles(rank.folder / run[0].name, run) for run in runs], repeated


def _slice_number(file: SourceFile) -> int:
    found = re.search(r"slice_(\d+)", file.name)
    return int(found[1]) if found else -1
