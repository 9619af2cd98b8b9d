"""Communicators of HCCL operators: full id, members, size.

An operator names the last three characters of its communicator's id. The whole id stands behind the operator in
``communication.json``, or among the groups of ``profiler_metadata.json``, or on its thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from parsers.ascend.communication import CommStatistics
from parsers.ascend.communicators import communicator_id
from parsers.ascend.hccl import HcclOp
from parsers.ascend.settings import Settings
from replay.trace import MISSING, CollectiveKind, Group

_NAME_LENGTH = 8  # numbers of threads are shorter than names of communicators


@dataclass(frozen=True, slots=True)
class Member:
    """One rank's collectives: the operator, its group's id, and its entry in the statistics if there is one."""

    op: HcclOp
    group: str
    statistics: CommStatistics | None


def known_ids(settings: Iterable[Settings], statistics: Iterable[Sequence[CommStatistics]]) -> frozenset[str]:
    """Whole ids of groups that any rank's files name."""
    listed = {group.name for own in settings for group in own.groups}
    return frozenset(listed | {entry.group for own in statistics for entry in own if entry.group})


def members(ops: dict[int, HcclOp], statistics: Sequence[CommStatistics], listed: frozenset[str]) -> dict[int, Member]:
    """Each operator (by row) with the full id of its group, one of those ``listed`` where it can be told."""
    by_name: dict[str, list[CommStatistics]] = defaultdict(list)
    for entry in statistics:
        by_name[entry.name].append(entry)
    threads: dict[str, set[str]] = defaultdict(set)
    for op in ops.values():
        threads[op.suffix].add(op.group)
    found = {}
    for row, op in ops.items():
        near = min(by_name.get(op.name, []), key=lambda entry: abs(entry.start_ns - op.start_ns), default=None)
        group = (near.group if near else "") or _full_id(op, listed, alone=len(threads[op.suffix]) == 1)
        found[row] = Member(op, group, near)
    return found


def _full_id(op: HcclOp, listed: Iterable[str], *, alone: bool) -> str:
    """The one known id that the thread names or that ends like the operator says; else what the operator itself says.

    Threads are numbered differently on every rank, so their number counts only where two groups end alike.
    """
    group = communicator_id(op.group) if len(op.group) >= _NAME_LENGTH else op.group
    if group in listed:
        return group
    ending = [name for name in listed if op.suffix and name.endswith(op.suffix)]
    if len(ending) == 1:
        return ending[0]
    if not op.suffix or (len(group) > len(op.suffix) and group.endswith(op.suffix)):
        return group
    return op.suffix if alone else f"{op.suffix} ({group})"


def groups_of(
    ranks: Mapping[int, Mapping[int, Member]], settings: Sequence[Settings], sizes: Mapping[str, int]
) -> tuple[Group, ...]:
    """Every group met: its members where the metadata lists them or all are in the input, else the size that shows.

    What two ranks use to send each what the other receives is theirs alone: torch_npu has a communicator a pair.

    ``ranks`` holds the collectives of every rank by its number, ``sizes`` the fewest members of every group they use.
    """
    listed = {group.name: group for own in settings for group in own.groups}
    users: dict[str, dict[int, Counter[CollectiveKind]]] = defaultdict(lambda: defaultdict(Counter))
    for rank, member in ((rank, member) for rank, own in ranks.items() for member in own.values()):
        users[member.group][rank][member.op.kind] += 1
    rest = []
    for name in (name for name in users if name and name not in listed):
        size = sizes[name] if sizes[name] > 1 else 2 if _answer(*users[name].values()) else MISSING
        complete = tuple(sorted(users[name])) if size == len(users[name]) else ()
        rest.append(Group(name, "", complete, size))
    return (*listed.values(), *rest)


def _answer(*kinds: Counter[CollectiveKind]) -> bool:
    """Whether these are the operators of two ranks, each of which receives as often as the other sends."""
    if len(kinds) != 2:
        return False
    one, other = kinds
    exchanged = [(a[CollectiveKind.SEND], b[CollectiveKind.RECV]) for a, b in ((one, other), (other, one))]
    return all(a == b for a, b in exchanged) and sum(a + b for a, b in exchanged) == one.total() + other.total() > 0
