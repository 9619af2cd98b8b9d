"""What a step's own transfers say about its links: time of a message by its size, inside a node and between nodes.

A collective of n ranks that moves S bytes sends messages one after the other (Thakur et al. 2005): a ring all-reduce
2 (n - 1) of S / n, ring gathers and scatters and a direct all-to-all n - 1 of S / n, a send one of S. So every
transfer seen is a sample t / messages at the message size, whatever its kind, and together they form one curve per
tier: straight between samples and towards the latency that two sizes show (none, where there is one), of constant
bandwidth above the largest. Transfers too small for bandwidth to matter are apart: much of what they take is their
ranks' coming together, so they bound the others from below and tell the latency only of what is as small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hwprofiles import HardwareProfile
from replay.collectives._network import Estimate, collective_time
from replay.collectives._two_tiers import Nodes
from replay.core.columns import Float64
from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind
from replay.trace import CollectiveKind

ASSUMED_DEVICES_PER_NODE = 8  # every NVLink, xGMI and HCCS training node that a profile of this project describes
SMALL_NBYTES = 32 * 1024  # moved within 1 µs at 32 GB/s, the slowest link of a training node: latency is what is left
UNSEEN = 0.3  # half-width of the time of a transfer that was not measured, from others of other kinds and sizes

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
    """Time of one message by its size, both ascending; small transfers take start-up and messages · latency."""

    nbytes: Float64
    time_ns: Float64
    start_up_ns: float = 0.0
    latency_ns: float = 0.0

    @staticmethod
    def through(samples: Mapping[float, Sequence[float]], small: tuple[float, float] = (0.0, 0.0)) -> Curve:
        """The curve through samples by size; where the mean falls with size, the larger time before it is kept."""
        sizes = np.array(sorted(samples))
        means = np.maximum.accumulate([float(np.mean(samples[size])) for size in sizes.tolist()])
        return Curve(sizes, means, *small)

    def time_of(self, moved: Moved) -> tuple[float, Grade]:
        """Time of a transfer, and whether its messages' size lies among those seen."""
        small = self.start_up_ns + self.latency_ns * moved.messages
        if small > 0 and moved.message_nbytes <= SMALL_NBYTES:
            return small, Grade.FITTED
        each, grade = self.at(moved.message_nbytes)
        return max(moved.messages * each, small), grade

    def at(self, nbytes: float) -> tuple[float, Grade]:
        """Time of a message."""
        low, high = float(self.nbytes[0]), float(self.nbytes[-1])
        if nbytes > high:
            return float(self.time_ns[-1]) * nbytes / high, Grade.EXTRAPOLATED
        if nbytes >= low:
            return float(np.interp(nbytes, self.nbytes, self.time_ns)), Grade.FITTED
        intercept = self._intercept_ns()
        return intercept + (float(self.time_ns[0]) - intercept) * nbytes / low, Grade.EXTRAPOLATED

    def _intercept_ns(self) -> float:
        """Where the line through the two smallest sizes meets no bytes; never more than what small transfers take."""
        if len(self.nbytes) == 1:
            return 0.0
        (x, y), (t, u) = self.nbytes[:2], self.time_ns[:2]
        return float(np.clip(t - x * (u - t) / (y - x), 0.0, self.start_up_ns + self.latency_ns))


@dataclass(frozen=True, slots=True)
class Links:
    """Message times by tier (True: between nodes), and a profile for tiers without samples."""

    curves: Mapping[bool, Curve] = field(default_factory=dict)
    devices_per_node: int = ASSUMED_DEVICES_PER_NODE
    profile: HardwareProfile | None = None

    def time_ns(self, moved: Moved) -> tuple[float, Grade] | None:
        """Time of a transfer that was not measured; ``None`` where nothing says how fast its links are.

        From the samples of its tier inside their range, a profile's calibrated links, the samples beyond their range,
        the profile's datasheet, the samples of the other tier (assumed): the first there is.
        """
        if not moved.messages or moved.nbytes <= 0:
            return 0.0, Grade.FITTED
        tier = self._between_nodes(moved.ranks)
        curve, other = self.curves.get(tier), self.curves.get(not tier)
        seen = None if curve is None else curve.time_of(moved)
        if seen is not None and seen[1] <= Grade.FITTED:
            return seen
        known = self._from_profile(moved)
        if known is not None and (seen is None or known[1] <= Grade.EXTRAPOLATED):
            return known
        if seen is not None:
            return seen
        return None if other is None else (other.time_of(moved)[0], Grade.ASSUMED)

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

    def _from_profile(self, moved: Moved) -> tuple[float, Grade] | None:
        """Time by the profile's links, ``None`` without a profile or where it does not know them."""
        if self.profile is None:
            return None
        found = modelled(self.profile, moved, self.devices_per_node)
        return None if found is None else (float(found.time_ns[0]), Grade(int(found.grade[0])))


def devices_per_node(profile: HardwareProfile | None) -> int:
    """As the profile says, else assumed."""
    return int((profile and profile.get("devices_per_node")) or ASSUMED_DEVICES_PER_NODE)


def modelled(profile: HardwareProfile, moved: Moved, per_node: int) -> Estimate | None:
    """What a profile says of a transfer among ranks that fill one node of ``per_node`` after the other."""
    nodes = len({rank // per_node for rank in moved.ranks})
    laid_out = Nodes(nodes, max(1, len(moved.ranks) // nodes), profile.get("nics_per_device") or 1.0)
    kind = CollectiveKind.SEND_RECV if moved.kind in _TRANSFERS else moved.kind
    return collective_time(profile, kind, moved.nbytes, laid_out)


def learn_links(graph: Graph, profile: HardwareProfile | None = None) -> Links:
    """Links as the transfers of ``graph`` show them.

    Median where all members were seen (R3), the shortest of a size where some were: the others hold waiting.
    """
    per_node = devices_per_node(profile)
    links = Links({}, per_node, profile)
    shown: dict[bool, list[tuple[Moved, float]]] = defaultdict(list)
    for moved, complete, durations in _transfers(graph):
        time_ns = float(np.median(durations) if complete else min(durations))
        shown[links._between_nodes(moved.ranks)].append((moved, time_ns))
    curves = {
        tier: _curve(samples)
        for tier, samples in shown.items()
        if any(moved.message_nbytes > SMALL_NBYTES for moved, _ in samples)
    }
    return Links(curves, per_node, profile)


def _curve(shown: Sequence[tuple[Moved, float]]) -> Curve:
    """The curve of one tier: a point for every size that is not small, and what small transfers take."""
    samples: dict[float, list[float]] = defaultdict(list)
    for moved, time_ns in shown:
        if moved.message_nbytes > SMALL_NBYTES:
            samples[moved.message_nbytes].append(time_ns / moved.messages)
    return Curve.through(samples, _small([(m.messages, t) for m, t in shown if m.message_nbytes <= SMALL_NBYTES]))


def _small(times: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Start-up and latency of a message, from the shortest transfer of every number of messages.

    Least squares of t = start-up + messages x latency; what a lone number of messages takes is all start-up.
    """
    counts = sorted({count for count, _ in times})
    shortest = [min(time for other, time in times if other == count) for count in counts]
    if not counts:
        return 0.0, 0.0
    if len(counts) == 1:
        return shortest[0], 0.0
    latency, start_up = np.polyfit(counts, shortest, 1)
    if latency <= 0 or start_up < 0:
        return (
            (min(shortest), 0.0) if latency <= 0 else (0.0, min(t / n for t, n in zip(shortest, counts, strict=True)))
        )
    return float(start_up), float(latency)


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
