"""Over which kinds of links one member of a collective moved its bytes, from ``communication.json``."""

from __future__ import annotations

from collections.abc import Mapping

from parsers.ascend.text import whole
from replay.core.units import NS_PER_MS
from replay.trace import LinkUse

_BYTES_PER_MB = 1_000_000
_SUM = "SDMA"  # of what stays inside of a node: HCCS, PCIE and SIO


def link_uses(bandwidth: object) -> tuple[LinkUse, ...]:
    """Links that moved something, from a ``Communication Bandwidth Info``; megabytes are decimal.

    The sum counts only where nothing says over which links of a node the bytes went.
    """
    entries = bandwidth if isinstance(bandwidth, Mapping) else {}
    uses = [use for transport, entry in entries.items() if (use := _use(str(transport), entry)) is not None]
    parts = [use for use in uses if use.transport not in (_SUM, "RDMA")]
    return tuple(use for use in uses if use.transport != _SUM or not parts)


def _use(transport: str, entry: object) -> LinkUse | None:
    values = entry if isinstance(entry, Mapping) else {}
    nbytes = whole(values.get("Transit Size(MB)"), _BYTES_PER_MB)
    time_ns = whole(values.get("Transit Time(ms)"), NS_PER_MS)
    return LinkUse(transport, nbytes, time_ns) if nbytes > 0 and time_ns > 0 else None
