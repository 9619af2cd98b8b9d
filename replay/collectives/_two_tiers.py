"""Rings and trees over several nodes, from the links inside a node and those between nodes.

A ring visits all ranks of a node before it leaves it. All of its hops work at once, step by step, so a step takes as
long as its slowest hop. Libraries lay one ring (or tree) per network card, so every card carries an equal part: between
nodes a rank's bytes are divided by the cards of its node. A tree goes up inside the nodes and then across them, so its
latencies add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replay.collectives import tree_all_reduce
from replay.collectives._link import Link, Protocol, Sizes, smooth_minimum
from replay.core.columns import Float64
from replay.core.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Nodes:
    """A group of ranks, equally many on each node; ``nics_per_device`` network cards for each of them."""

    nodes: int
    ranks_per_node: int
    nics_per_device: float = 1.0

    @property
    def ranks(self) -> int:
        """Ranks of the group."""
        return self.nodes * self.ranks_per_node

    @property
    def nics(self) -> float:
        """Network cards of the group on one node."""
        return self.ranks_per_node * self.nics_per_device


def ring_time_ns(sent_nbytes: Sizes, steps: float, nodes: Nodes, intra: Link, inter: Link) -> Float64:
    """floor + min over protocols of (steps · slower latency + sent / min(intra, inter · cards of a node))."""

    def latency_ns(inside: Protocol, across: Protocol) -> float:
        return steps * max(inside.latency_ns, across.latency_ns)

    return _time_ns(sent_nbytes, latency_ns, nodes, (intra, inter))


def tree_time_ns(nbytes: Sizes, nodes: Nodes, intra: Link, inter: Link) -> Float64:
    """All-reduce: floor + min over protocols of (2 · log2 steps on each tier with its latency + sent / slower link)."""
    steps_inside = float(tree_all_reduce.steps(nodes.ranks_per_node))
    steps_across = float(tree_all_reduce.steps(nodes.nodes))

    def latency_ns(inside: Protocol, across: Protocol) -> float:
        return steps_inside * inside.latency_ns + steps_across * across.latency_ns

    return _time_ns(tree_all_reduce.sent_nbytes(nbytes, nodes.ranks), latency_ns, nodes, (intra, inter))


def _time_ns(
    sent_nbytes: Sizes, latency_ns: Callable[[Protocol, Protocol], float], nodes: Nodes, links: tuple[Link, Link]
) -> Float64:
    """The protocols of both links are paired in order: a library uses one along the whole way."""
    size = np.asarray(sent_nbytes, np.float64)
    intra, inter = links
    times = [
        latency_ns(inside, across) + size * NS_PER_S / min(inside.bytes_per_s, across.bytes_per_s * nodes.nics)
        for inside, across in zip(intra.ways, inter.ways, strict=False)
    ]
    return np.where(size > 0, max(intra.floor_ns, inter.floor_ns) + smooth_minimum(np.stack(times)), 0.0)
