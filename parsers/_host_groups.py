"""Which process group a host transfer belongs to: Gloo records no group, but each group has worker threads of its own.

``ProcessGroupGloo`` starts two workers, one right after the other, when the group is made. So neighbouring thread
numbers are one group's, and groups come in the order in which the header lists them. Not every listed group shows a
worker (pipeline groups only send and receive, the default group is often idle): of the assignments that keep the order,
the one is taken that fits best what each group is described for; where several fit equally, only the members are told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, islice, pairwise

from replay.trace import MISSING, CollectiveKind, Group, Trace

_WORKERS = 2  # of one group (torch: ProcessGroupGloo::Options, ``threads``)
_PIPELINE = re.compile(r"\bPIPELINE\b|\bPP\b", re.IGNORECASE)
_MIXED = re.compile(r"\bDATA\b|\bTENSOR\b|\bNORM\b", re.IGNORECASE)
_EXPERT = re.compile(r"\bEXPERT\b|\bEP\b|\bMOE\b", re.IGNORECASE)
_SEQUENCE = re.compile(r"\bCONTEXT\b|\bCP\b|\bSEQUENCE\b|\bULYSSES\b", re.IGNORECASE)
_UNDESCRIBED = ("", "undefined", "default_pg")
_TRIED = 10_000  # assignments of a rank with many groups, most of them idle


def worker_sets(trace: Trace, lanes: Sequence[int], most: int) -> dict[int, int]:
    """Lane of a worker thread → number of its group's workers, in order of creation (by thread number).

    Workers with neighbouring numbers are one group's; while that leaves more than ``most`` sets, other threads were
    started in between, and the closest are taken to belong together.
    """
    number = {lane: int(tid) if (tid := trace.lanes[lane].tid).isdigit() else MISSING for lane in lanes}
    sets = [[lane] for lane in sorted(lanes, key=lambda lane: (number[lane], lane))]
    while len(sets) > 1:
        gaps = [
            (number[right[0]] - number[left[-1]], at)
            for at, (left, right) in enumerate(pairwise(sets))
            if len(left) + len(right) <= _WORKERS
        ]
        closest, at = min(gaps, default=(0, -1))
        if at < 0 or (closest > 1 and len(sets) <= most):
            break
        sets[at : at + 2] = [sets[at] + sets[at + 1]]
    return {lane: place for place, members in enumerate(sets) for lane in members}


def groups_of_workers(trace: Trace, rank: int, kinds: Sequence[set[int]]) -> tuple[Group | None, ...]:
    """Group of every set of workers of ``rank``, given the collectives each carried out, in order of creation."""
    own = own_groups(trace, rank)
    scored = [(sum(map(_fit, chosen, kinds)), chosen) for chosen in islice(combinations(own, len(kinds)), _TRIED)]
    best = max((score for score, _ in scored), default=0.0)
    fitting = [chosen for score, chosen in scored if score == best]
    if len(fitting) == 1:
        return fitting[0]
    members = {group.ranks for group in own}
    alike = Group("", "", members.pop(), len(own[0].ranks)) if len(members) == 1 else None
    return (alike,) * len(kinds)


def pipeline_group(trace: Trace, rank: int) -> Group | None:
    """The one group of pipeline stages that ``rank`` belongs to; ``None`` if there is none or more than one."""
    found = [group for group in own_groups(trace, rank) if _is(_PIPELINE, group) and not _is(_MIXED, group)]
    return found[0] if len(found) == 1 else None


def own_groups(trace: Trace, rank: int) -> list[Group]:
    """Groups of more than one member that hold ``rank``, in order of creation (their names are numbers)."""
    own = [group for group in trace.groups if rank in group.ranks and len(group.ranks) > 1]
    numbered = all(group.name.isdigit() for group in own)
    return sorted(own, key=lambda group: int(group.name)) if numbered else own


def _fit(group: Group, kinds: set[int]) -> float:
    """How well a group's description fits what its workers did; frameworks that describe groups use those."""
    described = 0.5 if group.description not in _UNDESCRIBED else 0.0
    if _is(_PIPELINE, group) and not _is(_MIXED, group) and not _is(_EXPERT, group):
        return -1.0
    exchanges = _is(_EXPERT, group) and not _is(_MIXED, group)
    if CollectiveKind.ALL_TO_ALL in kinds:
        return described + (1.0 if exchanges or _is(_SEQUENCE, group) else -2.0 * described)
    return described - float(exchanges)


def _is(pattern: re.Pattern[str], group: Group) -> bool:
    return bool(pattern.search(group.description.replace("_", " ")))
