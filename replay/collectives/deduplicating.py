"""Deduplicating dispatch and combine (DeepEP, hierarchical dispatchers): one copy per distinct remote node.

A token goes once to every other node that holds at least one of its experts, and is fanned out there. The bytes follow
the expected number of distinct nodes under the router's rule: the router first admits ``topk_groups`` of ``groups``
equal groups of experts, then takes ``topk`` experts from the admitted ones (DeepSeek-V3, section 2.1.2), here with
every choice equally likely (balanced routing).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from replay.collectives import point_to_point
from replay.collectives._link import Link, Sizes
from replay.collectives.hierarchical import two_tier_time_ns
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.DISPATCH, CollectiveKind.COMBINE)


@dataclass(frozen=True, slots=True)
class Router:
    """``topk`` of ``experts``, from at most ``topk_groups`` of ``groups`` groups of neighbouring experts."""

    experts: int
    topk: int
    groups: int = 1
    topk_groups: int = 1

    def __post_init__(self) -> None:
        admitted = self.topk_groups * self.experts // max(self.groups, 1)
        if self.experts % self.groups or not 0 < self.topk_groups <= self.groups or not 0 < self.topk <= admitted:
            raise ValueError(
                f"a router cannot take {self.topk} of {self.experts} experts from {self.topk_groups} of "
                f"{self.groups} groups"
            )


def distinct_parts(router: Router, parts: int) -> float:
    """Expected number of parts that hold at least one of a token's experts, experts dealt out in equal blocks.

    sum over parts of 1 - E[C(m - c, k) / C(m, k)], with m experts admitted, c of them in the part (depending on which
    groups are admitted), k = topk. A part is a node or a rank; it may span several groups or share one.
    """
    return sum(_hit(router, _group_shares(router, parts, part)) for part in range(parts))


def remote_nodes(router: Router, ranks: int, devices_per_node: int) -> float:
    """Expected number of *other* nodes a token goes to: distinct nodes · (1 - 1/nodes); 0 on one node."""
    nodes = max(1, -(-ranks // devices_per_node))
    return distinct_parts(router, nodes) * (1.0 - 1.0 / nodes)


def remote_ranks_inside(router: Router, ranks: int, devices_per_node: int) -> float:
    """Expected copies per token that cross the links inside a node: distinct ranks · (1 - 1/local ranks)."""
    local = min(ranks, devices_per_node)
    return distinct_parts(router, ranks) * (1.0 - 1.0 / local)


steps = point_to_point.steps
sent_nbytes = point_to_point.sent_nbytes


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """Time of ``nbytes`` that leave a rank over one link (``ranks`` only tells a lone rank, which sends nothing)."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


def exchange_time_ns(token_nbytes: Sizes, copies: tuple[float, float], intra: Link, inter: Link) -> Float64:
    """Time for all tokens of a rank: max over tiers of copies · bytes / bandwidth.

    ``token_nbytes`` = tokens · bytes per token, ``copies`` = per token inside the node and to other nodes.
    """
    size = np.asarray(token_nbytes, dtype=np.float64)
    return two_tier_time_ns(size * copies[0], size * copies[1], intra, inter)


def _group_shares(router: Router, parts: int, part: int) -> list[int]:
    """How many experts of each group lie in a part: the part holds experts [part · E/parts, (part + 1) · E/parts)."""
    size = router.experts // router.groups
    begin, end = part * router.experts // parts, (part + 1) * router.experts // parts
    return [max(0, min(end, (g + 1) * size) - max(begin, g * size)) for g in range(router.groups)]


def _hit(router: Router, shares: list[int]) -> float:
    """Probability that a token has an expert in a part that holds ``shares`` experts of each group.

    ``ways[j][c]``: number of ways to admit j groups with c experts of the part in them.
    """
    ways: list[dict[int, int]] = [{} for _ in range(router.topk_groups + 1)]
    ways[0][0] = 1
    for share in shares:
        for admitted in range(router.topk_groups, 0, -1):
            for count, number in ways[admitted - 1].items():
                ways[admitted][count + share] = ways[admitted].get(count + share, 0) + number
    pool = router.topk_groups * router.experts // router.groups
    missed = sum(number * comb(pool - count, router.topk) for count, number in ways[router.topk_groups].items())
    return 1.0 - missed / (comb(router.groups, router.topk_groups) * comb(pool, router.topk))
