"""Ascend ``communication.json``: packets that crossed each kind of link, by size (torch_npu, msprof, clusters).

``Size Distribution`` maps a packet's size in MB (10^6 bytes) to ``[count, total ms]``: one task of the SDMA or RDMA
engine, without waiting and without the host. One size of one collective is one sample, a message between a pair: HCCS
inside a node, RDMA between nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from parsers.ascend.folder import name_in_rank
from parsers.ascend.json_files import as_dict, decoded_json
from parsers.ascend.text import text_of
from parsers.samples._rows import Gathered, Row
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.core.units import NS_PER_MS
from replay.samples import Samples

FORMAT = "Ascend communication.json"

_BANDWIDTHS = "Communication Bandwidth Info"
_SIZES = "Size Distribution"
_BETWEEN_NODES = "RDMA"
_INSIDE = ("HCCS", "PCIE", "SDMA")
"""Links inside a node: the first that carried packets counts. SIO joins dies of one chip; SDMA sums what it has."""

_BYTES_PER_MB = 1e6


@dataclass(frozen=True, slots=True)
class _Packets:
    """Packets of one size of one collective."""

    transport: str
    nbytes: float
    count: float
    total_ms: float
    line: int


def sniff(head: bytes) -> bool:
    """A JSON object that holds bandwidths of a collective."""
    return text_of(head).lstrip()[:1] == "{" and _BANDWIDTHS in text_of(head)


def read(file: SourceFile) -> Samples:
    """One sample per size, collective and kind of link; ``line`` is where the sizes stand."""
    text = text_of(file.read())
    try:
        value = as_dict(decoded_json(text))
    except ValueError as error:
        raise TraceError(f"{file.name}: is not an Ascend communication.json ({error})") from None
    return samples_of(name_in_rank(file), value, _lines(text))


def samples_of(name: str, value: Mapping[str, Any], lines: Iterator[int]) -> Samples:
    """The same of what such a file holds, with the line of each size distribution as far as there are lines."""
    try:
        packets = list(_packets(value, lines))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{name}: is not an Ascend communication.json ({error})") from None
    gathered = Gathered(name)
    inside = next((name for name in _INSIDE if any(packet.transport == name for packet in packets)), "")
    for packet in packets:
        _take(packet, inside, gathered)
    return gathered.samples()


def _lines(text: str) -> Iterator[int]:
    """Line of each size distribution, in the order of the file."""
    line, at = 1, 0
    for match in re.finditer(f'"{_SIZES}"', text):
        line += text.count("\n", at, match.start())
        at = match.start()
        yield line


def _packets(node: Mapping[str, Any], lines: Iterator[int], *, total: bool = False) -> Iterator[_Packets]:
    """All packets below a node, in the order of the file; of sums over collectives ("Total …") only the lines count."""
    for name, below in node.items():
        if not isinstance(below, Mapping):
            continue
        if name != _BANDWIDTHS:
            yield from _packets(below, lines, total=total or name.startswith("Total "))
            continue
        for transport, found in below.items():
            if _SIZES not in found:
                continue
            line = next(lines, 1)
            for size, (count, total_ms) in {} if total else found[_SIZES].items():
                yield _Packets(transport, float(size) * _BYTES_PER_MB, float(count), float(total_ms), line)


def _take(packet: _Packets, inside: str, gathered: Gathered) -> None:
    if packet.transport not in (_BETWEEN_NODES, inside):
        gathered.leave_out(f"{packet.transport} beside {inside or _BETWEEN_NODES}", packet.line)
    elif not (0 < packet.nbytes < inf and 1 <= packet.count < inf and 0 < packet.total_ms < inf):
        gathered.leave_out("no bytes, packets or time", packet.line)
    else:
        nodes = 2.0 if packet.transport == _BETWEEN_NODES else 1.0
        sizes = {"nbytes": packet.nbytes, "ranks": 2.0, "nodes": nodes, "ranks_per_node": 2.0 / nodes}
        time_ns = packet.total_ms * NS_PER_MS / packet.count
        gathered.rows.append(Row("send", time_ns, packet.line, sizes, variant=packet.transport, software="hccl",
                                 repeats=int(packet.count)))  # fmt: skip
