"""Which communicator an event names: by name, members and size, among the groups that hold its rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from parsers._comm_names import peer_in_group
from parsers._rows import CommInfo
from replay.trace import MISSING, Group


class Groups:
    """Groups listed by headers plus those met on events; :meth:`code` is the index of the group of an event."""

    def __init__(self, listed: Iterable[Group]) -> None:
        self._groups: list[Group] = list(dict.fromkeys(listed))
        self._codes: dict[tuple[int, str, tuple[int, ...], int], int] = {}

    @property
    def all(self) -> tuple[Group, ...]:
        """Every group; index = code."""
        return tuple(self._groups)

    def code(self, rank: int, info: CommInfo) -> int:
        """Index of the group that ``info`` names on ``rank``, -1 where it names none."""
        if not info.group and not info.ranks and info.group_size < 1:
            return MISSING
        key = (rank, info.group, info.ranks, info.group_size)
        if key not in self._codes:
            self._codes[key] = self._find(rank, info)
        return self._codes[key]

    def peer(self, group: int, info: CommInfo) -> int:
        """Global rank of the peer: recorded, else translated from its number in the group, or in the default one."""
        if info.peer >= 0:
            return info.peer
        if group < 0 and info.member >= 0:
            return info.member
        index = info.member if info.member >= 0 else peer_in_group(info.name)
        members = self._groups[group].ranks if group >= 0 else ()
        return members[index] if 0 <= index < len(members) else MISSING

    def _find(self, rank: int, info: CommInfo) -> int:
        for code, group in enumerate(self._groups):
            if not _same(group, rank, info):
                continue
            if info.ranks and not group.ranks:
                self._groups[code] = replace(group, ranks=info.ranks, size=len(info.ranks))
            return code
        size = info.group_size if info.group_size > 0 else len(info.ranks) or MISSING
        self._groups.append(Group(info.group, info.description, info.ranks, size))
        return len(self._groups) - 1


def _same(group: Group, rank: int, info: CommInfo) -> bool:
    if info.group and group.name != info.group:
        return False
    if info.ranks and group.ranks:
        return info.ranks == group.ranks
    if group.ranks and rank not in group.ranks:
        return False
    return info.group_size < 1 or group.size in (MISSING, info.group_size)
