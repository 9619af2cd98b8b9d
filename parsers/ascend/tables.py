"""Small files beside an Ascend timeline: rank and groups, communication statistics, the kernel and step tables.

Sources of the layouts: torch_npu's profiler package and msprof's reference of data files. Columns come and go with
versions and levels; what is missing stays unknown.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from parsers.ascend.folder import RankFiles, Role
from parsers.ascend.text import cell, microseconds_ns
from parsers.source import SourceFile
from replay.core.units import NS_PER_MS, NS_PER_US
from replay.trace import MISSING, Group, StepTableRow

_RANK_IN_NAME = re.compile(r"profiler_info_(\d+)\.json$")
_JSON = (Role.COMMUNICATION, Role.MATRIX, Role.INFO, Role.METADATA)
_STEP_KEYS = ("Device_id", "Step", "Type", "Index", "DP Index", "PP Index", "TP Index")
_TOTALS = ("total op info", "total hccl operators")
_PEER_PAIR = re.compile(r"^(\d+)-(\d+)$")


@dataclass(frozen=True, slots=True)
class CommStatistics:
    """One operator of ``communication.json``; -1 where it does not say."""

    name: str  # "hcom_allReduce__586_0_1"
    group: str  # full id of the communicator
    start_ns: int
    dur_ns: int
    transit_ns: int  # also -1 where it is 0: the master plane of some collectives moves nothing


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One row of ``kernel_details.csv`` or ``op_summary``."""

    name: str
    op_type: str
    core: str  # "AI_CORE", "MIX_AIC", "AI_VECTOR_CORE", …
    start_ns: int
    dur_ns: int
    wait_ns: int
    input_shapes: str  # "4096,7168;7168,2048"
    input_dtypes: str
    input_formats: str
    output_shapes: str
    output_dtypes: str
    output_formats: str
    cube_utilization_pct: float  # NaN unknown
    blocks: int = MISSING  # cores that it was spread over
    cube_ns: int = MISSING
    cube_cycles: int = MISSING
    mac_ratio: float = float("nan")
    hf32: int = MISSING  # 1 eligible, 0 not


@dataclass(frozen=True, slots=True)
class Settings:
    """What the JSON files beside a timeline say of its rank."""

    rank: int = MISSING
    world_size: int = MISSING
    level: str = ""
    groups: tuple[Group, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Described:
    """What all JSON files beside a timeline hold, with a sentence for each that is damaged and was left out."""

    settings: Settings
    statistics: list[CommStatistics]  # operators of ``communication.json`` in any of its nestings, without its totals
    sizes: dict[str, int]  # group id → the fewest members it can have, by the numbers in ``communication_matrix.json``
    damaged: tuple[str, ...]


def read_described(files: RankFiles, roles: Sequence[Role] = _JSON) -> Described:
    """The JSON files of one rank that have one of ``roles``, each decoded once."""
    objects: dict[Role, list[tuple[str, dict[str, object]]]] = {role: [] for role in _JSON}
    damaged = []
    for role in roles:
        for file in files.of(role):
            try:
                value = _dict(msgspec.json.decode(file.read().decode("utf-8-sig", "replace")))
            except msgspec.DecodeError as error:
                value = {}  # the name of the file may tell the rank
                damaged.append(f"{file.name} is damaged ({error}) and was left out")
            objects[role].append((file.name, value))
    sizes: dict[str, int] = {}
    for _, matrix in objects[Role.MATRIX]:
        _collect_sizes(matrix, "", sizes)
    statistics = [row for _, level in objects[Role.COMMUNICATION] for row in _operators(level)]
    metadata = [value for _, value in objects[Role.METADATA]]
    return Described(_settings(objects[Role.INFO], metadata), statistics, sizes, tuple(damaged))


def _settings(infos: Sequence[tuple[str, dict[str, object]]], metadatas: Sequence[dict[str, object]]) -> Settings:
    """Rank, level and groups from ``profiler_info*.json`` and ``profiler_metadata.json``."""
    rank, level, versions = MISSING, "", []
    for name, info in infos:
        named = _RANK_IN_NAME.search(name)
        rank = max(rank, _int(info.get("rank_id")), int(named[1]) if named else MISSING)
        level = str(_dict(_dict(info.get("config")).get("experimental_config")).get("_profiler_level", "")) or level
        versions += [(key, str(info[key])) for key in ("torch_npu_version", "cann_version") if info.get(key)]
    groups: list[Group] = []
    world = MISSING
    for metadata in metadatas:
        environment = _dict(metadata.get("ENV_VARIABLES"))
        world = max(world, _int(environment.get("WORLD_SIZE")))
        world = max(world, _int(_dict(metadata.get("distributed_args")).get("world_size")))
        rank = rank if rank != MISSING else _int(environment.get("RANK"))
        groups += [_group(name, entry) for name, entry in _dict(metadata.get("parallel_group_info")).items()]
    world = max([world, *(len(group.ranks) for group in groups if group.description == "default_group")])
    return Settings(rank, world, level, tuple(groups), tuple(dict.fromkeys(versions)))


def _group(name: str, entry: object) -> Group:
    found = _dict(entry)
    listed = found.get("global_ranks")
    ranks = tuple(map(_int, listed)) if isinstance(listed, list) else ()
    return Group(name, str(found.get("group_name", "")), ranks, len(ranks) or MISSING)


def _operators(level: dict[str, object]) -> Iterator[CommStatistics]:
    for key, value in level.items():
        entry = _dict(value)
        times = _dict(entry.get("Communication Time Info"))
        if not times:
            yield from _operators(entry)
        elif key.lower() not in _TOTALS:
            name, _, group = key.partition("@")
            start = microseconds_ns(str(times.get("Start Timestamp(us)", "")))
            elapse, transit = (_float(times.get(f"{word} Time(ms)")) for word in ("Elapse", "Transit"))
            dur, wire = (round(value * NS_PER_MS) if value > 0 else MISSING for value in (elapse, transit))
            yield CommStatistics(name, group, start, dur, wire)


def _collect_sizes(level: dict[str, object], group: str, sizes: dict[str, int]) -> None:
    for key, value in level.items():
        pair = _PEER_PAIR.match(key)
        if pair:
            sizes[group] = max(sizes.get(group, 0), int(pair[1]) + 1, int(pair[2]) + 1)
        elif isinstance(value, dict):
            _collect_sizes(value, key.rpartition("@")[2] if "@" in key else group, sizes)


def read_kernels(files: RankFiles) -> tuple[list[KernelRow], int]:
    """Rows of all kernel tables with a start and a duration, and how many have none."""
    kept, lost = [], 0
    for file in files.of(Role.KERNELS):
        for row in _table(file):
            kernel = _kernel(row)
            if kernel.start_ns >= 0 and kernel.dur_ns >= 0:
                kept.append(kernel)
            else:
                lost += 1
    return kept, lost


def _kernel(row: dict[str, str]) -> KernelRow:
    def first(*names: str) -> str:
        return next((cell(row[name]) for name in names if row.get(name)), "")

    utilization = _float(first("cube_utilization(%)", "cube_utilization( %)"))
    mac_ratio = _float(first("aic_mac_ratio", "mac_ratio"))
    return KernelRow(
        name=first("Name", "Op Name"),
        op_type=first("Type", "OP Type"),
        core=first("Accelerator Core", "Task Type"),
        start_ns=microseconds_ns(first("Start Time(us)", "Task Start Time(us)")),
        dur_ns=microseconds_ns(first("Duration(us)", "Task Duration(us)")),
        wait_ns=microseconds_ns(first("Wait Time(us)", "Task Wait Time(us)")),
        input_shapes=first("Input Shapes").replace('"', ""),
        input_dtypes=first("Input Data Types").replace('"', ""),
        input_formats=first("Input Formats").replace('"', ""),
        output_shapes=first("Output Shapes").replace('"', ""),
        output_dtypes=first("Output Data Types").replace('"', ""),
        output_formats=first("Output Formats").replace('"', ""),
        cube_utilization_pct=utilization if utilization >= 0 else float("nan"),
        blocks=_int(first("Block Num", "Block Dim")),
        cube_ns=microseconds_ns(first("aicore_time(us)", "aic_time(us)")),
        cube_cycles=_count(first("aic_total_cycles", "total_cycles")),
        mac_ratio=mac_ratio if mac_ratio >= 0 else float("nan"),
        hf32={"YES": 1, "NO": 0}.get(first("HF32 Eligible").upper(), MISSING),
    )


def read_steps(files: RankFiles, rank: int) -> tuple[StepTableRow, ...]:
    """Rows of ``step_trace_time.csv``; a recording without steps leaves the step empty."""
    found = []
    for file in files.of(Role.STEPS):
        for row in _table(file):
            times = {
                name: _float(cell(value)) / (NS_PER_MS // NS_PER_US)
                for name, value in row.items()
                if name not in _STEP_KEYS
            }
            parts = tuple((name, value) for name, value in times.items() if value >= 0)
            found.append(StepTableRow(rank, cell(row.get("Step")), parts))
    return tuple(found)


def _table(file: SourceFile) -> list[dict[str, str]]:
    """Rows of a CSV file by column name; cells may hold newlines, lines may end in CRLF, rows may be short."""
    text = file.read().decode("utf-8-sig", "replace").replace("\0", "")
    reader = csv.DictReader(io.StringIO(text, newline=""), restval="")
    return [{(key or "").strip(): value for key, value in row.items() if isinstance(value, str)} for row in reader]


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _int(value: object) -> int:
    text = str(value).strip()
    return int(text) if re.fullmatch(r"\d{1,9}", text) else MISSING


def _count(text: str) -> int:
    """A count of any size, -1 where there is none; some releases write it as a float."""
    found = re.fullmatch(r"(\d{1,18})(?:\.0*)?", text.strip())
    return int(found[1]) if found else MISSING


def _float(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return float(MISSING)
