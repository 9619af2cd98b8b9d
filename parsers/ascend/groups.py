"""Communicators of HCCL operators: full id, members, size; and one count for all ranks of a group.

An operator names the last three characters of its communicator's id. The whole id stands behind the operator in
``communication.json``, or among the groups of ``profiler_metadata.json``. The count in its name starts with profiling
on each rank, so ranks that began at different operators are shifted against each other: the shift sought is the one
under which most operators agree in kind and size, and of those the one that brings their ends closest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from parsers.ascend.hccl import HcclOp
from parsers.ascend.tables import CommStatistics, Settings
from replay.trace import MISSING, Group

_FURTHEST = 4096  # counts that ranks may be apart
_SAMPLE = 64  # operators that judge a shift: thousands of them agree or none
_NEIGHBOURS = 4
_MOSTLY = 0.9  # of the operators that must agree, fewer ones where a rank was recorded for a shorter time


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
    if op.group in listed:
        return op.group
    ending = [name for name in listed if op.suffix and name.endswith(op.suffix)]
    if len(ending) == 1:
        return ending[0]
    if not op.suffix or (len(op.group) > len(op.suffix) and op.group.endswith(op.suffix)):
        return op.group
    return op.suffix if alone else f"{op.suffix} ({op.group})"


def groups_of(
    ranks: dict[int, dict[int, Member]], settings: Sequence[Settings], sizes: dict[str, int]
) -> tuple[Group, ...]:
    """Every group met: its members where the metadata lists them or all are in the input, else the size that shows.

    ``ranks`` holds the collectives of every rank by its number.
    """
    listed = {group.name: group for own in settings for group in own.groups}
    fewest = dict(sizes)
    users: dict[str, set[int]] = defaultdict(set)
    for rank, member in ((rank, member) for rank, own in ranks.items() for member in own.values()):
        users[member.group].add(rank)
        seen = max(member.op.rank_size, max(member.op.peers, default=MISSING) + 1)
        fewest[member.group] = max(fewest.get(member.group, MISSING), seen)
    rest = []
    for name in (name for name in users if name and name not in listed):
        size = fewest[name] if fewest[name] > 1 else MISSING
        complete = tuple(sorted(users[name])) if size == len(users[name]) else ()
        rest.append(Group(name, "", complete, size))
    return (*listed.values(), *rest)


def shifts(ranks: Sequence[dict[int, Member]]) -> list[dict[str, int]]:
    """For every rank: group → what to add to its counts so that they agree with those of the first rank that has it."""
    reference: dict[str, list[HcclOp]] = {}
    found: list[dict[str, int]] = []
    for own in ranks:
        by_group: dict[str, list[HcclOp]] = defaultdict(list)
        for member in own.values():
            if member.op.counter >= 0:
                by_group[member.group].append(member.op)
        found.append({})
        for group, ops in by_group.items():
            found[-1][group] = _shift(reference[group], ops) if group in reference else 0
            reference.setdefault(group, ops)
    return found


def _shift(reference: Sequence[HcclOp], ops: Sequence[HcclOp]) -> int:
    """Best shift of ``ops`` against ``reference``.

    Members of one collective end together, so the counts of operators that end closest are tried first, and their
    neighbours, because clocks differ; the whole range only where none of those fits.
    """
    there = {op.counter: op for op in reference}
    sample = ops[:: max(1, len(ops) // _SAMPLE)]
    ends = np.array([op.end_ns for op in reference])
    order = np.argsort(ends, kind="stable")
    near = {0}
    for op in sample:
        at = min(int(np.searchsorted(ends[order], op.end_ns)), len(order) - 1)
        middle = reference[int(order[at])].counter - op.counter
        near.update(range(middle - _NEIGHBOURS, middle + _NEIGHBOURS + 1))
    best = _best(there, sample, near)
    if _agreement(there, sample, best)[0] < _MOSTLY * len(sample):
        best = _best(there, sample, {counter - sample[0].counter for counter in there} | near)
    return best


def _best(there: dict[int, HcclOp], ops: Sequence[HcclOp], candidates: Iterable[int]) -> int:
    scored = [(_agreement(there, ops, shift), shift) for shift in candidates if abs(shift) <= _FURTHEST]
    return max(scored, key=lambda item: (*item[0], -abs(item[1])))[1]


def _agreement(there: dict[int, HcclOp], ops: Sequence[HcclOp], shift: int) -> tuple[int, float]:
    pairs = [(there[op.counter + shift], op) for op in ops if op.counter + shift in there]
    equal = [
        (a, b) for a, b in pairs if (a.operator.lower(), a.count, a.dtype) == (b.operator.lower(), b.count, b.dtype)
    ]
    apart = median(abs(a.end_ns - b.end_ns) for a, b in equal) if equal else float("inf")
    return len(equal) - (len(pairs) - len(equal)), -apart
