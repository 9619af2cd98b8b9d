"""JSON files beside an Ascend timeline: rank, groups and sizes of the job, and statistics of its communication.

Sources of the layouts: torch_npu's, MindSpore's and msprof-analyze's own writers. Keys come and go with versions and
levels; what is missing stays unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from parsers.ascend.communicators import communicator_id
from parsers.ascend.folder import RankFiles, Role
from parsers.ascend.links import link_uses
from parsers.ascend.matrix import links_of, partners, sizes_of
from parsers.ascend.text import microseconds_ns, rank_number, text_of, whole
from parsers.source import SourceFile
from replay.core.units import NS_PER_MS
from replay.trace import MISSING, Group, LinkUse

Objects = Mapping[Role, list[tuple[str, dict[str, object]]]]
_RANK_IN_NAME = re.compile(r"profiler_info_(\d+)\.json$")
_DEVICE_IN_NAME = re.compile(r"^info\.json\.(\d{1,4})$")
_JSON = (Role.COMMUNICATION, Role.MATRIX, Role.INFO, Role.METADATA)
_WORLD = ("default_group", "hccl_world_group")  # torch's, MindSpore's
_TOTALS = ("total op info", "total hccl operators")
_VERSIONS = ("torch_npu_version", "cann_version", "ms_version")
_SIZES = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "data_parallel_size": "dp",
    "expert_model_parallel_size": "ep",
    "expert_tensor_parallel_size": "etp",
    "virtual_pipeline_model_parallel_size": "vpp",
}


@dataclass(frozen=True, slots=True)
class CommStatistics:
    """One operator of ``communication.json``; -1 where it does not say."""

    name: str  # "hcom_allReduce__586_0_1"
    group: str  # full id of the communicator
    start_ns: int
    dur_ns: int
    transit_ns: int  # also -1 where it is 0: the master plane of some collectives moves nothing
    rank: int = MISSING  # where the file is of all ranks
    partner: int = MISSING  # of a send: the other end's number inside the group, from the communication matrix
    links: tuple[LinkUse, ...] = ()  # over which its bytes went


@dataclass(frozen=True, slots=True)
class Settings:
    """What the JSON files beside a timeline say of its rank."""

    rank: int = MISSING
    world_size: int = MISSING
    level: str = ""
    groups: tuple[Group, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)  # parallel sizes as the job recorded its own arguments


@dataclass(frozen=True, slots=True)
class Described:
    """What all JSON files beside a timeline hold, with a sentence for each that is damaged and was left out."""

    settings: Settings
    statistics: list[CommStatistics]  # operators of ``communication.json`` in any of its nestings, without its totals
    sizes: dict[str, int]  # group id → the fewest members it can have, by the numbers in ``communication_matrix.json``
    damaged: tuple[str, ...]
    devices: Mapping[int, int] = field(default_factory=dict)  # device → rank, where msprof says so for each


def read_described(files: RankFiles, roles: Sequence[Role] = _JSON, more: Objects | None = None) -> Described:
    """The JSON files of one rank that have one of ``roles``, each decoded once; ``more`` stands in for missing ones."""
    damaged: list[str] = []
    objects = {role: read_objects(files.of(role), damaged) or (more or {}).get(role, []) for role in roles}
    links = [link for _, matrix in objects.get(Role.MATRIX, []) for link in links_of(matrix)]
    to = partners(links)
    statistics = [
        replace(row, partner=to.get((row.name, row.group), MISSING))
        for _, level in objects.get(Role.COMMUNICATION, [])
        for row in operators(level)
    ]
    metadata = [value for _, value in objects.get(Role.METADATA, [])]
    infos = objects.get(Role.INFO, [])
    return Described(_settings(infos, metadata), statistics, sizes_of(links), tuple(damaged), _devices(infos))


def read_objects(files: Sequence[SourceFile], damaged: list[str]) -> list[tuple[str, dict[str, object]]]:
    """(name, object) of every file; an empty object, since the name may tell a rank, where one is damaged."""
    found = []
    for file in files:
        try:
            found.append((file.name, as_dict(decoded_json(text_of(file.read())))))
        except ValueError as error:  # of either decoder; a compressed file that is cut short, too
            found.append((file.name, {}))
            damaged.append(f"{file.name} is damaged ({error}) and was left out")
    return found


def decoded_json(text: str) -> object:
    """A JSON value; Python writes NaN and Infinity, which are no JSON, and reads them again."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        value: object = json.loads(text)
        return value


def _settings(infos: Sequence[tuple[str, dict[str, object]]], metadatas: Sequence[dict[str, object]]) -> Settings:
    """Rank, level, groups and sizes from ``profiler_info*.json`` and ``profiler_metadata.json``."""
    rank, world, level, versions = MISSING, MISSING, "", []
    for name, info in infos:
        named = _RANK_IN_NAME.search(name)
        rank = max(rank, rank_number(info.get("rank_id")), int(named[1]) if named else MISSING)
        world = max(world, rank_number(info.get("rank_size")))
        settings = as_dict(as_dict(info.get("config")).get("experimental_config"))
        level = str(settings.get("_profiler_level") or settings.get("profiler_level") or "") or level
        versions += [(key, str(info[key])) for key in _VERSIONS if info.get(key)]
    groups: list[Group] = []
    sizes: dict[str, int] = {}
    for metadata in metadatas:
        environment = as_dict(metadata.get("ENV_VARIABLES"))
        arguments = _arguments(metadata.get("distributed_args"))
        world = max(world, rank_number(environment.get("WORLD_SIZE")), rank_number(arguments.get("world_size")))
        told = (rank, rank_number(environment.get("RANK")), rank_number(arguments.get("rank")))
        rank = next((own for own in told if own >= 0), MISSING)
        sizes |= stated_sizes(arguments)
        groups += [_group(name, entry) for name, entry in as_dict(metadata.get("parallel_group_info")).items()]
    world = max([world, *(len(group.ranks) for group in groups if group.description in _WORLD)])
    return Settings(rank, world, level, tuple(groups), tuple(dict.fromkeys(versions)), sizes)


def _arguments(value: object) -> dict[str, object]:
    """Arguments of the job: an object, or its text where they were added as a plain value."""
    if isinstance(value, str):
        try:
            return as_dict(decoded_json(value))
        except ValueError:
            return {}
    return as_dict(value)


def _devices(infos: Sequence[tuple[str, dict[str, object]]]) -> dict[int, int]:
    """Ranks of devices, from msprof's ``info.json.<device>``; -1 where a job did not tell it."""
    named = ((_DEVICE_IN_NAME.match(name), rank_number(info.get("rank_id"))) for name, info in infos)
    return {int(found[1]): rank for found, rank in named if found and rank >= 0}


def stated_sizes(arguments: Mapping[str, object]) -> dict[str, int]:
    """Parallel sizes among the arguments that a job was started with, in the words of a layout."""
    return {word: size for key, word in _SIZES.items() if (size := rank_number(arguments.get(key))) > 0}


def _group(name: str, entry: object) -> Group:
    found = as_dict(entry)
    ranks = as_ranks(found.get("global_ranks"))
    return Group(communicator_id(name), str(found.get("group_name", "")), ranks, len(ranks) or MISSING)


def operators(level: Mapping[str, object], name: str = "", rank: int = MISSING) -> Iterator[CommStatistics]:
    """Operators at any depth: below steps, kinds and communicators, above ranks where the file is of all of them."""
    for key, value in level.items():
        entry = as_dict(value)
        times = as_dict(entry.get("Communication Time Info"))
        if not times:
            yield from operators(entry, key)
        elif rank_number(key) >= 0:
            yield from _operator(name, rank_number(key), entry, times)
        else:
            yield from _operator(key, rank, entry, times)


def _operator(
    key: str, rank: int, entry: Mapping[str, object], times: Mapping[str, object]
) -> Iterator[CommStatistics]:
    if key.lower() in _TOTALS:
        return
    name, _, group = key.partition("@")
    links = link_uses(entry.get("Communication Bandwidth Info"))
    start = microseconds_ns(str(times.get("Start Timestamp(us)", "")))
    dur, wire = (whole(times.get(f"{word} Time(ms)"), NS_PER_MS) or MISSING for word in ("Elapse", "Transit"))
    yield CommStatistics(name, communicator_id(group), start, dur, wire, rank, links=links)


def as_dict(value: object) -> dict[str, object]:
    """A JSON object, an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def as_ranks(value: object) -> tuple[int, ...]:
    """A list of rank numbers, empty where it is something else."""
    ranks = tuple(map(rank_number, value)) if isinstance(value, list) else ()
    return ranks if MISSING not in ranks else ()
