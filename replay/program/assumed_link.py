"""The link of ranks of which neither the input nor a profile says how fast it is.

Nothing says that they share a node, so it is taken to be the network between nodes, at the median bandwidth per device
of the profiles that know theirs (50 GB/s: one 400 Gb/s port a device in two of three), without latency.
"""

from __future__ import annotations

from functools import cache
from statistics import median

import hwprofiles
from replay.core.units import NS_PER_S
from replay.program.links import Moved

BOUNDS = (0.25, 4.0)
"""How much shorter and longer a transfer may be: from 100 Gb/s a device to the links of half a node."""


@cache
def bytes_per_s() -> float:
    """Median over the shipped profiles of what a device sends to other nodes."""
    known = [hwprofiles.load(name).get("inter_node_bytes_per_s") for name in hwprofiles.names()]
    return float(median(value for value in known if value is not None))


def time_ns(moved: Moved) -> float:
    """messages x bytes of one / bandwidth."""
    return moved.messages * moved.message_nbytes * NS_PER_S / bytes_per_s()


def note() -> str:
    """What is said of an answer that rests on it."""
    return (
        f"nothing says how fast the links are on which the target moves bytes and the input does not: "
        f"{bytes_per_s() / 1e9:.0f} GB/s a device is assumed; --source-hardware PROFILE says better"
    )
