"""The link of ranks of which neither the input nor a profile says how fast it is.

Nothing says that they share a node, so it is taken to be the network between nodes, at the median bandwidth per device
of the profiles of the same architecture that know theirs, without latency. (GPUs: 50 GB/s, one 400 Gb/s port a device;
Ascend: 25 GB/s, one of 200 Gb/s.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import median

import hwprofiles
from replay.core.units import NS_PER_S
from replay.program.links import Moved

BOUNDS = (0.25, 4.0)
"""How much shorter and longer a transfer may be: from 100 Gb/s a GPU to the links of half a node."""

_ASCEND = "ascend"


@dataclass(frozen=True, slots=True)
class AssumedLink:
    """A link between nodes; ``bytes_per_s`` is what a device sends."""

    bytes_per_s: float

    def time_ns(self, moved: Moved) -> float:
        """messages x bytes of one / bandwidth."""
        return moved.messages * moved.message_nbytes * NS_PER_S / self.bytes_per_s

    @property
    def note(self) -> str:
        """What is said of an answer that rests on it."""
        return (
            f"nothing says how fast the links are on which the target moves bytes and the input does not: "
            f"{self.bytes_per_s / 1e9:.0f} GB/s a device is assumed; --source-hardware PROFILE says better"
        )


@cache
def of_device(device: str = "") -> AssumedLink:
    """The link of a device by its name as traces report it; a name that tells no Ascend is a GPU's."""
    cubes = device.lower().startswith(_ASCEND)
    alike = [profile for profile in map(hwprofiles.load, hwprofiles.names()) if _has_cubes(profile) == cubes]
    known = [profile.get("inter_node_bytes_per_s") for profile in alike]
    return AssumedLink(float(median(value for value in known if value is not None)))


def _has_cubes(profile: hwprofiles.HardwareProfile) -> bool:
    return profile.get("cube_side") is not None
