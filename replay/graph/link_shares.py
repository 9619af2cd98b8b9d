"""Kinds of links that collectives used, where the profiler recorded what each of them moved (Ascend)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from replay.core.columns import Float64, Int64
from replay.trace import Trace

BETWEEN_NODES = ("RDMA", "ROCE")  # how recorded kinds of links that leave a node begin


def link_shares(trace: Trace, events: Int64) -> dict[str, Float64]:
    """Per kind of link, its share of the link time of every one of ``events``; rows of zeros where none is recorded.

    Times are sums over tasks that may run at once, so a share is that of the work, not of the time on the wire.
    """
    links = trace.collectives.links
    shares: dict[str, Float64] = defaultdict(lambda: np.zeros(len(events)))
    for at, row in enumerate(trace.comm[events].tolist() if links else ()):
        total = sum(use.time_ns for use in links[row])
        for use in links[row]:
            shares[use.transport][at] += use.time_ns / total
    return dict(shares)
