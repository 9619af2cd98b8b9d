"""What the JSON files beside an Ascend timeline tell of its rank, all together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from parsers.ascend.communication import CommStatistics, operators
from parsers.ascend.folder import RankFiles, Role
from parsers.ascend.json_files import Objects, read_objects
from parsers.ascend.matrix import links_of, partners, sizes_of
from parsers.ascend.settings import Settings, ranks_of_devices, settings_of
from replay.trace import MISSING

_JSON = (Role.COMMUNICATION, Role.MATRIX, Role.INFO, Role.METADATA)


@dataclass(frozen=True, slots=True)
class Described:
    """What all JSON files beside a timeline hold, with a sentence for each that is damaged and was left out."""

    settings: Settings
    statistics: list[CommStatistics]  # operators of ``communication.json`` in any of its nestings, without its totals
    sizes: dict[str, int]  # group id → the fewest members it can have, by the numbers in ``communication_matrix.json``
    damaged: tuple[str, ...]
    devices: Mapping[int, int] = field(default_factory=dict)  # device → rank, where msprof says so for each


def read_described(files: RankFiles, roles: Sequence[Role] = _JSON, more: Objects | None = None) -> Described:
    """The JSON files of one rank that have one of ``roles``, each decoded once.

    ``more`` adds to settings, and stands in for statistics that are missing or damaged, which would count twice.
    """
    damaged: list[str] = []
    objects = {}
    for role in roles:
        own, others = read_objects(files.of(role), damaged), (more or {}).get(role, [])
        alone = role in (Role.COMMUNICATION, Role.MATRIX) and any(value for _, value in own)
        objects[role] = own if alone else [*own, *others]
    links = [link for _, matrix in objects.get(Role.MATRIX, []) for link in links_of(matrix)]
    to = partners(links)
    statistics = [
        replace(row, partner=to.get((row.name, row.group), MISSING))
        for _, level in objects.get(Role.COMMUNICATION, [])
        for row in operators(level)
    ]
    metadata = [value for _, value in objects.get(Role.METADATA, [])]
    infos = objects.get(Role.INFO, [])
    return Described(settings_of(infos, metadata), statistics, sizes_of(links), tuple(damaged), ranks_of_devices(infos))
