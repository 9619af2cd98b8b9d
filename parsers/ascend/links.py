"""Over which kinds of links one member of a collective moved its bytes, from ``communication.json``."""

from __future__ import annotations

from collections.abc import Mapping

from parsers.ascend.text import number
from replay.core.units import NS_PER_MS
from replay.trace import MISSING, LinkUse

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
    size, time = (number(values.get(name), MISSING) for name in ("Transit Size(MB)", "Transit Time(ms)"))
    if size <= 0 or time < 0:
        return None
    return LinkUse(transport, round(size * _BYTES_PER_MB), round(time * NS_PER_MS))
