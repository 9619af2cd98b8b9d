"""Rank, groups and sizes of the job, level and versions, from ``profiler_info*.json`` and ``profiler_metadata.json``.

Sources of the layouts: torch_npu's, MindSpore's and msprof's own writers. Keys come and go with versions and levels;
what is missing stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from parsers.ascend.communicators import communicator_id
from parsers.ascend.json_files import as_dict, as_ranks, decoded_json
from parsers.ascend.text import rank_number
from replay.trace import MISSING, Group

_RANK_IN_NAME = re.compile(r"profiler_info_(\d+)\.json$")
_DEVICE_IN_NAME = re.compile(r"^info\.json\.(\d{1,4})$")
_WORLD = ("default_group", "hccl_world_group")  # torch's, MindSpore's
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
class Settings:
    """What the JSON files beside a timeline say of its rank."""

    rank: int = MISSING
    world_size: int = MISSING
    level: str = ""
    groups: tuple[Group, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)  # parallel sizes as the job recorded its own arguments


def settings_of(infos: Sequence[tuple[str, dict[str, object]]], metadatas: Sequence[dict[str, object]]) -> Settings:
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


def ranks_of_devices(infos: Sequence[tuple[str, dict[str, object]]]) -> dict[int, int]:
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
