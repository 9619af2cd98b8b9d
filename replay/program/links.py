"""What a step's own transfers say about its links: time of a message by its size, inside a node and between nodes.

A collective of n ranks that moves S bytes sends messages one after the other (Thakur et al. 2005): a ring all-reduce
2 (n - 1) of S / n, ring gathers and scatters and a direct all-to-all n - 1 of S / n, a send one of S. So every
transfer seen is a sample t / messages at the message size, whatever its kind, and together they form one curve per
tier: straight between samples, level below the smallest where latency decides, of constant bandwidth above the largest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hwprofiles import HardwareProfile
from replay.collectives._link import Link
from replay.core.columns import Float64
from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind
from replay.trace import CollectiveKind

ASSUMED_DEVICES_PER_NODE = 8  # every NVLink, xGMI and HCCS training node that a profile of this project describes
SMALL_NBYTES = 32 * 1024  # moved within 1 µs at 32 GB/s, the slowest link of a training node: latency is what is left

_ROUNDS = {
    CollectiveKind.ALL_REDUCE: 2,
    CollectiveKind.ALL_GATHER: 1,
    CollectiveKind.REDUCE_SCATTER: 1,
    CollectiveKind.ALL_TO_ALL: 1,
}
_TRANSFERS = (CollectiveKind.SEND, CollectiveKind.RECV)


@dataclass(frozen=True, slots=True)
class Moved:
    """One transfer: what kind, how many bytes a rank has (the larger of its buffers), among which ranks."""

    kind: CollectiveKind
    nbytes: float
    ranks: tuple[int, ...]

    @property
    def messages(self) -> int:
        """How many messages a rank sends one after the other; 0 on a rank alone."""
        n = len(self.ranks)
        return 1 if self.kind in _TRANSFERS else _ROUNDS.get(self.kind, 1) * max(n - 1, 0)

    @property
    def message_nbytes(self) -> float:
        """Bytes of one message."""
        return self.nbytes if self.kind in _TRANSFERS else self.nbytes / max(len(self.ranks), 1)


@dataclass(frozen=True, slots=True)
class Curve:
    """Time of one message by its size, both ascending."""

    nbytes: Float64
    time_ns: Float64

    @staticmethod
    def through(samples: Mapping[float, Sequence[float]]) -> Curve:
        """The curve through samples by size; where the mean falls with size, the larger time before it is kept."""
        sizes = np.array(sorted(samples))
        return Curve(sizes, np.maximum.accumulate([float(np.mean(samples[size])) for size in sizes.tolist()]))

    def at(self, nbytes: float) -> tuple[float, Grade]:
        """Time of a message, and whether its size lies among those seen."""
        low, high = float(self.nbytes[0]), float(self.nbytes[-1])
        if nbytes > high:
            return float(self.time_ns[-1]) * nbytes / high, Grade.EXTRAPOLATED
        if nbytes >= low:
            return float(np.interp(nbytes, self.nbytes, self.time_ns)), Grade.FITTED
        level = low <= SMALL_NBYTES
        return float(self.time_ns[0]) * (1.0 if level else nbytes / low), Grade.FITTED if level else Grade.EXTRAPOLATED


@dataclass(frozen=True, slots=True)
class Links:
    """Message times by tier (True: between nodes), and a profile for tiers without samples."""

    curves: Mapping[bool, Curve] = field(default_factory=dict)
    devices_per_node: int = ASSUMED_DEVICES_PER_NODE
    profile: HardwareProfile | None = None

    def time_ns(self, moved: Moved) -> tuple[float, Grade] | None:
        """Time of a transfer that was not measured; ``None`` where nothing says how fast its links are.

        From the samples of its tier, else from the profile, else from the samples of the other tier (assumed).
        """
        if not moved.messages or moved.nbytes <= 0:
            return 0.0, Grade.FITTED
        tier = self._between_nodes(moved.ranks)
        curve, link = self.curves.get(tier), self._link(tier)
        if curve is not None:
            each, grade = curve.at(moved.message_nbytes)
            return each * moved.messages, grade
        if link is not None:
            return float(link.time_ns(moved.message_nbytes)) * moved.messages, Grade.DATASHEET
        other = self.curves.get(not tier)
        return None if other is None else (other.at(moved.message_nbytes)[0] * moved.messages, Grade.ASSUMED)

    def ratio(self, before: Moved, after: Moved) -> tuple[float, Grade]:
        """New over old time of a transfer that was measured as ``before``: by messages and bytes, on their links.

        Where nothing says how fast the links are, bytes that leave a rank decide (``assumed``); on a rank alone, bytes.
        """
        if not before.messages and not after.messages:
            return (after.nbytes / before.nbytes if before.nbytes > 0 else 1.0), Grade.SCALED
        old, new = self.time_ns(before), self.time_ns(after)
        if old is None or new is None or old[0] <= 0:
            sent = before.messages * before.message_nbytes
            return (after.messages * after.message_nbytes / sent if sent > 0 else 1.0), Grade.ASSUMED
        same = self._between_nodes(before.ranks) == self._between_nodes(after.ranks)
        return new[0] / old[0], max(old[1], new[1]) if not same or new[1] > Grade.FITTED else Grade.SCALED

    def _between_nodes(self, ranks: tuple[int, ...]) -> bool:
        return len({rank // self.devices_per_node for rank in ranks}) > 1

    def _link(self, between_nodes: bool) -> Link | None:
        tier = "inter" if between_nodes else "intra"
        bandwidth = self.profile.get(f"{tier}_node_bytes_per_s") if self.profile else None
        if self.profile is None or bandwidth is None:
            return None
        return Link(bandwidth, self.profile.get(f"{tier}_node_latency_ns") or 0.0)


def learn_links(graph: Graph, profile: HardwareProfile | None = None) -> Links:
    """Links as the transfers of ``graph`` show them.

    Median where all members were seen (R3), the shortest of a size where some were: the others hold waiting.
    Messages of latency alone are as long as the shortest of them, whoever sent it.
    """
    per_node = int((profile and profile.get("devices_per_node")) or ASSUMED_DEVICES_PER_NODE)
    links = Links({}, per_node, profile)
    samples: dict[bool, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for moved, complete, durations in _transfers(graph):
        shown = float(np.median(durations)) if complete else float(min(durations))
        samples[links._between_nodes(moved.ranks)][moved.message_nbytes].append(shown / moved.messages)
    curves = {tier: Curve.through(_levelled(found)) for tier, found in samples.items()}
    return Links(curves, per_node, profile)


def _levelled(samples: Mapping[float, Sequence[float]]) -> dict[float, list[float]]:
    """Samples with one for all small messages, the shortest: what the others took longer was no transfer."""
    small = [(min(times), size) for size, times in samples.items() if size <= SMALL_NBYTES]
    large = {size: list(times) for size, times in samples.items() if size > SMALL_NBYTES}
    return {min(small)[1]: [min(small)[0]], **large} if small else large


def _transfers(graph: Graph) -> list[tuple[Moved, bool, list[int]]]:
    """Durations of every (kind, bytes, ranks) that moves a known number of bytes, and whether all members were seen."""
    comms = graph.comms
    found: dict[tuple[int, int, tuple[int, ...]], list[int]] = defaultdict(list)
    complete: dict[tuple[int, int, tuple[int, ...]], bool] = {}
    ops = np.flatnonzero((graph.kind == OpKind.TRANSFER) & (graph.comm >= 0) & (graph.duration_ns > 0))
    rows = graph.comm[ops]
    pairs: dict[int, set[int]] = defaultdict(set)
    for rank, match in zip(graph.rank[ops].tolist(), comms.match[rows].tolist(), strict=True):
        pairs[match].add(rank)
    for op, row in zip(ops.tolist(), rows.tolist(), strict=True):
        kind, group = CollectiveKind(int(comms.kind[row])), int(comms.group[row])
        ranks = tuple(sorted(pairs[int(comms.match[row])])) if kind in _TRANSFERS else ()
        ranks = ranks or (graph.groups[group].ranks if group >= 0 else ())
        if comms.nbytes[row] <= 0 or len(ranks) < 2 or kind not in (*_ROUNDS, *_TRANSFERS):
            continue
        key = (int(kind), int(comms.nbytes[row]), ranks)
        found[key].append(int(graph.duration_ns[op]))
        complete[key] = complete.get(key, True) and bool(comms.seen[row] >= comms.size[row] > 1)
    return [
        (Moved(CollectiveKind(kind), nbytes, ranks), complete[kind, nbytes, ranks], durations)
        for (kind, nbytes, ranks), durations in found.items()
    ]
