"""Modelled lags (R5): one number per trace for each way of releasing an op, learned where that way was the last one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import NS_PER_MS, NS_PER_US
from replay.graph.edge_list import EdgeList

_UNSEEN_NS = 2 * NS_PER_US  # assumed for a lag that never shows: accelerators chain ready work this fast
LONGEST_NS = NS_PER_MS  # no mechanism takes longer to release work; what does is a residual, not a lag (R5)


def typical_delay(samples: Int64) -> int:
    """Mean of the delays that are not far above the lower quartile (at most twice it, plus 1 µs).

    A delay is contaminated in one direction only, by waits that no rule knows; the low part is the mechanism itself.
    Means, unlike medians, keep sums sums (R12).
    """
    if not len(samples):
        return 0
    low = float(np.quantile(samples, 0.25))
    return int(np.mean(samples[samples <= 2 * low + NS_PER_US]))


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured start and end of every op, ns."""

    start_ns: Int64
    end_ns: Int64


def released_ns(edges: EdgeList, measured: Measured) -> Int64:
    """When each edge released its target in the measurement."""
    at = np.where(edges.from_start, measured.start_ns[edges.source], measured.end_ns[edges.source])
    return np.asarray(at + edges.lag_ns)


def learn_lag(edges: EdgeList, measured: Measured, of: Bool, longest_ns: int = LONGEST_NS) -> int:
    """Lag of the edges ``of``: the typical delay (start - release) over targets that no other edge held longer.

    A target counts where every other edge released it before this one's source was reached, so the delay is this
    edge's alone; of several edges ``of`` into one target (a device sync waits for every stream) the last one counts.
    Where that leaves none, the smallest delay of all is a bound, and no lag is taken to be long. A delay beyond
    ``longest_ns`` is none of the mechanism's doing, however regular it is: the rest stays a residual.
    """
    released = released_ns(edges, measured)
    delay = measured.start_ns[edges.target] - released
    others = np.full(len(measured.start_ns), np.iinfo(np.int64).min)
    np.maximum.at(others, edges.target[~of], released[~of])
    last = others.copy()
    np.maximum.at(last, edges.target[of], released[of])
    alone = of & (others[edges.target] < released) & (released == last[edges.target]) & (delay >= 0)
    samples = delay[alone]
    if len(samples):
        return min(typical_delay(samples), longest_ns)
    everything = delay[of & (delay >= 0)]
    return min(int(everything.min(initial=_UNSEEN_NS)), _UNSEEN_NS)
