"""Which ops of one step are which of the other: lanes by their content, then ops by order along each lane.

The result is a list of *units*. A unit is an op on both sides, an op on one side only, or the host work between two
neighbouring calls that both sides have (however either side cuts it into ops).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from replay.core.columns import Int64, freeze
from replay.graph.types import Graph, OpKind
from replay.program.template_ids import occurrence, row_ids
from replay.report.diff.words import name_codes
from replay.report.members import transfer_of

MOST_EDITS = 2_000  # of one lane; beyond, ops are matched by how many of their name came before
_BETWEEN = (OpKind.HOST, OpKind.MARK, OpKind.TRANSFER)  # not matched by name: found through their neighbours


@dataclass(frozen=True, slots=True)
class Units:
    """``of_a`` and ``of_b`` give every op's unit, -1 for ops of lanes and ranks that have no counterpart."""

    of_a: Int64
    of_b: Int64
    count: int
    unmatched_lanes: tuple[str, ...]

    def __post_init__(self) -> None:
        freeze(self.of_a)
        freeze(self.of_b)

    def first(self, side: Int64) -> Int64:
        """Lowest op of every unit on one side (``of_a`` or ``of_b``); -1 for none."""
        first = np.full(self.count, -1, np.int64)
        ops = np.flatnonzero(side >= 0)[::-1]
        first[side[ops]] = ops
        return first


def pair(a: Graph, b: Graph, ranks: dict[int, int]) -> Units:
    """Units of two graphs; ``ranks`` maps ranks of ``a`` to those of ``b``."""
    codes = name_codes((a, b))
    writer = _Writer(np.full(len(a), -1, np.int64), np.full(len(b), -1, np.int64))
    lost: list[str] = []
    for rank_a, rank_b in ranks.items():
        lanes_a, lanes_b = _lanes(a, rank_a), _lanes(b, rank_b)
        matched = _match_lanes((a, lanes_a), (b, lanes_b), codes)
        for lane_a, lane_b in matched:
            writer.lane((a, lanes_a[lane_a], codes[0]), (b, lanes_b[lane_b], codes[1]))
        lost += [a.lanes[lane].label for lane in lanes_a.keys() - {m[0] for m in matched}]
        lost += [b.lanes[lane].label for lane in lanes_b.keys() - {m[1] for m in matched}]
    writer.transfers(a, b)
    return Units(writer.of_a, writer.of_b, writer.count, tuple(lost))


def _lanes(graph: Graph, rank: int) -> dict[int, Int64]:
    """Ops of every lane of a rank in measured order (in index order where nothing was measured)."""
    ops = np.flatnonzero(graph.rank == rank)
    ops = ops[np.lexsort((ops, graph.measured_start_ns[ops], graph.lane[ops]))]
    lanes, begins = np.unique(graph.lane[ops], return_index=True)
    return {int(lane): part for lane, part in zip(lanes, np.split(ops, begins)[1:], strict=True)}


def _match_lanes(
    a: tuple[Graph, dict[int, Int64]], b: tuple[Graph, dict[int, Int64]], codes: tuple[Int64, Int64]
) -> list[tuple[int, int]]:
    """Lanes with most ops in common; threads and streams are numbered anew in every run."""
    (graph_a, lanes_a), (graph_b, lanes_b) = a, b
    if not lanes_a or not lanes_b:
        return []
    common = np.zeros((len(lanes_a), len(lanes_b)))
    for i, (lane_a, ops_a) in enumerate(lanes_a.items()):
        for j, (lane_b, ops_b) in enumerate(lanes_b.items()):
            if graph_a.lanes[lane_a].is_device == graph_b.lanes[lane_b].is_device:
                same_label = graph_a.lanes[lane_a].label == graph_b.lanes[lane_b].label
                common[i, j] = _in_common(codes[0][ops_a], codes[1][ops_b]) + 0.5 * same_label
    rows, columns = linear_sum_assignment(common, maximize=True)
    keys_a, keys_b = list(lanes_a), list(lanes_b)
    return [(keys_a[i], keys_b[j]) for i, j in zip(rows, columns, strict=True) if common[i, j] > 0]


def _in_common(a: Int64, b: Int64) -> int:
    size = int(max(a.max(initial=0), b.max(initial=0))) + 1
    return int(np.minimum(np.bincount(a, minlength=size), np.bincount(b, minlength=size)).sum())


class _Writer:
    """Numbers units lane by lane."""

    def __init__(self, of_a: Int64, of_b: Int64) -> None:
        self.of_a, self.of_b, self.count = of_a, of_b, 0

    def lane(self, a: tuple[Graph, Int64, Int64], b: tuple[Graph, Int64, Int64]) -> None:
        """Units of a pair of lanes; each side is (graph, its ops in order, code of every op of the graph)."""
        (graph_a, ops_a, codes_a), (graph_b, ops_b, codes_b) = a, b
        at_a = np.flatnonzero(~np.isin(graph_a.kind[ops_a], _BETWEEN))
        at_b = np.flatnonzero(~np.isin(graph_b.kind[ops_b], _BETWEEN))
        partner = _partners(codes_a[ops_a[at_a]], codes_b[ops_b[at_b]])
        paired = np.flatnonzero(partner >= 0)
        self._each(ops_a[at_a[paired]], ops_b[at_b[partner[paired]]])
        self._each(ops_a[at_a[partner < 0]], None)
        self._each(None, np.delete(ops_b[at_b], partner[paired]))
        ordered = partner[paired] == np.maximum.accumulate(partner[paired])  # matches by count may cross
        anchors_a, anchors_b = at_a[paired[ordered]], at_b[partner[paired[ordered]]]
        host_a = _host_by_gap(graph_a, ops_a, anchors_a)
        host_b = _host_by_gap(graph_b, ops_b, anchors_b)
        for gap in range(len(anchors_a) + 1):
            self._gap(host_a.get(gap, ()), host_b.get(gap, ()))

    def _each(self, a: Int64 | None, b: Int64 | None) -> None:
        """One unit per row."""
        size = len(a) if a is not None else len(b) if b is not None else 0
        numbers = np.arange(self.count, self.count + size)
        if a is not None:
            self.of_a[a] = numbers
        if b is not None:
            self.of_b[b] = numbers
        self.count += size

    def _gap(self, a: Iterable[int], b: Iterable[int]) -> None:
        """Host work between two anchors is one unit."""
        of_a, of_b = list(a), list(b)
        if of_a or of_b:
            self.of_a[of_a] = self.count
            self.of_b[of_b] = self.count
            self.count += 1

    def transfers(self, a: Graph, b: Graph) -> None:
        """Transfers follow their arrivals: both of a pair, or the one of an arrival without partner."""
        arrivals = [side.copy() for side in (self.of_a, self.of_b)]
        number = np.full(self.count, -1, np.int64)
        for graph, side, of_arrival in ((a, self.of_a, arrivals[0]), (b, self.of_b, arrivals[1])):
            transfer = transfer_of(graph)
            arrival = np.flatnonzero((transfer >= 0) & (of_arrival >= 0))
            fresh = np.unique(of_arrival[arrival][number[of_arrival[arrival]] < 0])
            number[fresh] = np.arange(self.count, self.count + len(fresh))
            self.count += len(fresh)
            side[transfer[arrival]] = number[of_arrival[arrival]]


def _host_by_gap(graph: Graph, ops: Int64, anchors: Int64) -> dict[int, list[int]]:
    """Host ops of a lane by the number of anchors before them."""
    at = np.flatnonzero(graph.kind[ops] == OpKind.HOST)
    gaps: dict[int, list[int]] = {}
    for place, gap in zip(at.tolist(), np.searchsorted(anchors, at).tolist(), strict=True):
        gaps.setdefault(gap, []).append(int(ops[place]))
    return gaps


def _partners(a: Int64, b: Int64) -> Int64:
    """Place in ``b`` of every element of ``a``, -1 for none; places rise where the lanes are alike."""
    if len(a) == len(b) and (a == b).all():
        return np.arange(len(a), dtype=np.int64)
    if not len(a) or not len(b):
        return np.full(len(a), -1, np.int64)
    from replay.report.diff import kernels  # noqa: PLC0415 - numba takes 0.3 s to import

    found = kernels.align(a, b, MOST_EDITS)
    return found if len(found) else _by_occurrence(a, b)


def _by_occurrence(a: Int64, b: Int64) -> Int64:
    """The k-th of a name is the k-th of that name."""
    codes = np.concatenate([a, b])
    ids = row_ids(codes, np.concatenate([occurrence(a), occurrence(b)]))
    place = np.full(int(ids.max()) + 1, -1, np.int64)
    place[ids[len(a) :]] = np.arange(len(b))
    return place[ids[: len(a)]]
