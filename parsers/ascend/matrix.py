"""Links of ``communication_matrix.json``: who sent to whom, and how many ranks a communicator must therefore have.

Ends are numbered inside of the communicator. A rank sees all members on its own node, over HCCS, SIO or PCIE, but only
some of those on others, over RDMA: with nodes that hold equally many, the members fill whole nodes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from parsers.ascend.communicators import communicator_id

_PAIR = re.compile(r"^(\d{1,6})-(\d{1,6})$")
_LOCAL = "LOCAL"
_BETWEEN_NODES = ("RDMA", "ROCE", "STANDARD_ROCE")


@dataclass(frozen=True, slots=True)
class Link:
    """One link that an operator used, or one of the shortened matrix's samples of them."""

    operator: str  # "hcom_send__822_0"; "allreduce-top1" where operators are put together
    group: str
    source: int
    target: int
    transport: str  # "HCCS", "RDMA", "LOCAL", …


def links_of(level: Mapping[str, object], key: str = "") -> Iterator[Link]:
    """All links below a step, a kind of operators or a whole file."""
    operator, _, group = key.partition("@")
    for name, value in level.items():
        pair = _PAIR.match(name)
        if not isinstance(value, dict):
            continue
        if pair:
            told = str(value.get("Transport Type", "")).upper()
            yield Link(operator, communicator_id(group), int(pair[1]), int(pair[2]), told)
        else:
            yield from links_of(value, name if "@" in name else key)


def sizes_of(links: Sequence[Link]) -> dict[str, int]:
    """Group → the fewest members it can have."""
    most: dict[str, int] = defaultdict(int)
    on_node: dict[tuple[str, int], set[int]] = defaultdict(set)
    apart: set[str] = set()
    for link in links:
        most[link.group] = max(most[link.group], link.source + 1, link.target + 1)
        if link.transport in _BETWEEN_NODES:
            apart.add(link.group)
        else:
            on_node[link.group, link.source] |= {link.source, link.target}
    found = {}
    for group, size in most.items():
        node = max((len(seen) for (own, _), seen in on_node.items() if own == group), default=1)
        found[group] = -(-size // node) * node if group in apart else size
    return found


def partners(links: Sequence[Link]) -> dict[tuple[str, str], int]:
    """(operator, group) → the only rank at the other end of its links, for sends and receives."""
    ends: dict[tuple[str, str], set[int]] = defaultdict(set)
    for link in links:
        if link.transport != _LOCAL and link.source != link.target:
            ends[link.operator, link.group].add(link.target)
    return {key: next(iter(targets)) for key, targets in ends.items() if len(targets) == 1}
