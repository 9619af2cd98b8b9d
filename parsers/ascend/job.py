"""The job that the ranks of an Ascend profile are of: its communicators, its world and its parallel sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from parsers.ascend.cluster import Cluster, matched
from parsers.ascend.groups import Member, groups_of
from parsers.ascend.settings import Settings
from replay.trace import MISSING, RECORDED, Group

_CLUSTER = "the ranks of the cluster's tables"
_LARGEST = "the largest communicator met: the job has at least as many ranks"
_MODEL = ("tp", "cp", "pp")


@dataclass(frozen=True, slots=True)
class Job:
    """``evidence`` says how ``world_size`` is known; ``layout`` holds sizes that the job recorded of itself.

    ``bounds`` counts the groups whose size is the fewest members that links and partners show, or that use it.
    """

    groups: tuple[Group, ...]
    world_size: int
    evidence: str
    layout: dict[str, int]
    bounds: int


def job_of(
    members: Mapping[int, dict[int, Member]],
    settings: Sequence[Settings],
    seen: Sequence[Mapping[str, int]],
    cluster: Cluster,
) -> Job:
    """What all ranks together tell; ``members`` are their collectives, by rank, ``seen`` the sizes that links show."""
    sizes: dict[str, int] = {}
    for name, size in (item for own in seen for item in own.items()):
        sizes[name] = max(sizes.get(name, 0), size)
    users: dict[str, set[int]] = defaultdict(set)
    for rank, own in members.items():
        for member in own.values():
            users[member.group].add(rank)
            sizes[member.group] = max(sizes.get(member.group, 0), member.op.fewest_members)
    known = {group.name for told in settings for group in told.groups} | {group.name for group in cluster.groups}
    unknown = {name: ranks for name, ranks in users.items() if name not in known}
    listed = Settings(groups=(*cluster.groups, *matched(cluster.rank_sets, unknown, sizes)))
    groups = groups_of(members, [*settings, listed], sizes)
    world, evidence = _world(members, settings, groups, cluster)
    stated = next((told.sizes for told in settings if told.sizes), cluster.sizes)
    told = {member.group for own in members.values() for member in own.values() if member.op.rank_size > 0}
    told |= known | {group.name for group in listed.groups}
    bounds = sum(group.size > 0 and group.name not in told for group in groups)
    return Job(groups, world, evidence, _consistent(stated, world), bounds)


def _world(
    members: Mapping[int, object], settings: Sequence[Settings], groups: Sequence[Group], cluster: Cluster
) -> tuple[int, str]:
    recorded = max((told.world_size for told in settings), default=MISSING)
    if recorded > max(members, default=0):
        return recorded, RECORDED
    if cluster.ranks:
        return max(*cluster.ranks, *members) + 1, _CLUSTER
    largest = max((max(group.size, *group.ranks, MISSING) for group in groups), default=MISSING)
    return (max(largest, max(members, default=0) + 1) if largest > 0 else MISSING), _LARGEST


def _consistent(sizes: Mapping[str, int], world: int) -> dict[str, int]:
    """The sizes that go into the world together: a half-told layout must not contradict what else is known."""
    model = prod(sizes.get(name, 1) for name in _MODEL)
    if world > 0 and world % model:
        return {}
    kept = dict(sizes)
    if world > 0 and model * sizes.get("dp", 1) != world:
        kept.pop("dp", None)
    stage = world // sizes.get("pp", 1)
    if world <= 0 or stage % (sizes.get("ep", 1) * sizes.get("etp", 1)):
        kept.pop("ep", None)
        kept.pop("etp", None)
    return kept
