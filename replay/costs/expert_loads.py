"""How many rows each expert of the busiest rank gets, as a few groups of experts with equal rows.

Routers are described as measured tables describe them: a number of tokens, top-k, experts, and a power law of the
loads (skew 0: balanced). What a kernel costs depends on the whole distribution (every expert used reads its weights,
every partial tile costs a whole one), not on the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Float64

GROUPS = 16
"""Groups of experts with equal rows that stand for a distribution."""

_DRAWS = 8
_LEAST = 1.0
_LARGEST_SHARE = 0.8  # of all tokens, for the most popular expert


@dataclass(frozen=True, slots=True)
class Routing:
    """``tokens`` of the whole expert group, each sent to ``topk`` of ``experts`` that lie on ``ranks``."""

    tokens: float
    topk: float
    experts: float
    ranks: float
    skew: float


def expert_rows(routing: Routing) -> tuple[Float64, Float64]:
    """(rows, copies) of groups of experts of the busiest rank; copies sum to its number of experts."""
    local = max(1.0, routing.experts / routing.ranks)
    if routing.skew <= 0:
        return _balanced(routing, local)
    return _grouped(_busiest(routing, int(local)), local)


def _balanced(routing: Routing, local: float) -> tuple[Float64, Float64]:
    """Rows as even as whole rows allow: ⌈r⌉ for a share of experts, ⌊r⌋ for the others."""
    rows, copies = np.zeros(GROUPS), np.zeros(GROUPS)
    mean = routing.tokens * routing.topk / routing.experts
    low = np.floor(mean)
    more = min(local, np.ceil((mean - low) * local))
    rows[:2], copies[:2] = (low + 1.0, low), (more, local - more)
    return rows, copies


def _busiest(routing: Routing, local: int) -> Float64:
    """(draws, local) rows on the rank with most rows; loads drawn from a bounded power law and scaled to the total.

    Inverse of the distribution on [a, b]: x = ((b^(1-s) - a^(1-s))·u + a^(1-s))^(1/(1-s)).
    """
    total = routing.tokens * routing.topk
    few = total <= routing.experts
    low, high = (0.01, 2.0) if few else (_LEAST, max(_LARGEST_SHARE * routing.tokens, 1.01))
    power = 1.0 - routing.skew if abs(routing.skew - 1.0) > 1e-6 else 1e-6
    u = np.random.default_rng(0).random((_DRAWS, int(routing.experts)))
    drawn = ((high**power - low**power) * u + low**power) ** (1.0 / power)
    rows = np.stack([_whole(each / each.sum() * total, int(total)) for each in drawn])
    ranks = rows[:, : rows.shape[1] // local * local].reshape(_DRAWS, -1, local)
    return np.asarray(ranks[np.arange(_DRAWS), ranks.sum(axis=2).argmax(axis=1)])


def _whole(rows: Float64, total: int) -> Float64:
    """Rounded rows that sum to ``total``: missing ones go to unused experts, the first ones first, then to the most
    popular; surplus leaves the least popular (as in aiconfigurator's generator, where few tokens meet the first rank).
    """
    whole = np.round(rows)
    missing = total - int(whole.sum())
    if missing > 0:
        unused = np.flatnonzero(whole == 0)[:missing]
        whole[unused] += 1.0
        whole[np.argsort(-whole, kind="stable")[: missing - len(unused)]] += 1.0
    order = np.argsort(-whole, kind="stable")
    for _ in range(-missing):
        least = order[whole[order] > 0][-1]
        whole[least] -= 1.0
    return whole


def _grouped(rows: Float64, local: float) -> tuple[Float64, Float64]:
    """Groups of equally many experts in order of rows, the unused ones apart."""
    flat = np.sort(rows.ravel())[::-1]
    used = flat[flat > 0]
    parts = np.array_split(used, GROUPS)
    means = np.array([part.mean() if len(part) else 0.0 for part in parts])
    share = np.array([len(part) for part in parts]) / len(flat)
    return means, share * local
