"""Statistics of collectives: the operators of ``communication.json``, and over which kinds of links they moved bytes.

Sources of the layouts: torch_npu's, MindSpore's and msprof-analyze's own writers, which nest operators differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from parsers.ascend.communicators import communicator_id
from parsers.ascend.json_files import as_dict
from parsers.ascend.text import microseconds_ns, rank_number, whole
from replay.core.units import NS_PER_MS
from replay.trace import MISSING, LinkUse

_TOTALS = ("total op info", "total hccl operators")
_BYTES_PER_MB = 1_000_000
_SUM = "SDMA"  # of what stays inside of a node: HCCS, PCIE and SIO


@dataclass(frozen=True, slots=True)
class CommStatistics:
    """One operator of ``communication.json``; -1 where it does not say."""

    name: str  # "hcom_allReduce__586_0_1"
    group: str  # full id of the communicator
    start_ns: int
    dur_ns: int
    transit_ns: int  # also -1 where it is 0: the master plane of some collectives moves nothing
    rank: int = MISSING  # where the file is of all ranks
    partner: int = MISSING  # of a send: the other end's number inside the group, from the communication matrix
    links: tuple[LinkUse, ...] = ()  # over which its bytes went


def operators(level: Mapping[str, object], name: str = "") -> Iterator[CommStatistics]:
    """Operators at any depth: below steps, kinds and communicators, above ranks where the file is of all of them.

    ``name`` is the key of ``level``.
    """
    for key, value in level.items():
        entry = as_dict(value)
        times = as_dict(entry.get("Communication Time Info"))
        if not times:
            yield from operators(entry, key)
        elif rank_number(key) >= 0:
            yield from _operator(name, rank_number(key), entry, times)
        else:
            yield from _operator(key, MISSING, entry, times)


def _operator(
    key: str, rank: int, entry: Mapping[str, object], times: Mapping[str, object]
) -> Iterator[CommStatistics]:
    if key.lower() in _TOTALS:
        return
    name, _, group = key.partition("@")
    links = link_uses(entry.get("Communication Bandwidth Info"))
    start = microseconds_ns(str(times.get("Start Timestamp(us)", "")))
    dur, wire = (whole(times.get(f"{word} Time(ms)"), NS_PER_MS) for word in ("Elapse", "Transit"))
    yield CommStatistics(name, communicator_id(group), start, dur, wire or MISSING, rank, links=links)


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
