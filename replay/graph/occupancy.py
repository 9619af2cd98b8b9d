"""Device occupancy: a kernel that was free to run but started only as another stream's kernel let go of the device.

Streams promise concurrency, the device's cores decide it: a kernel that fills them holds back whatever other streams
have ready. An op counts as held back when every known release came well before its start, and a kernel of another
stream of the same rank ended as it began, or was in its last tenth (its tail leaves cores free). The edge keeps the
measured offset of the pair; it is inferred.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_US
from replay.graph.edge_list import EdgeList
from replay.graph.lags import released_ns
from replay.graph.number import Numbered
from replay.graph.types import DEVICE_OPS, OpKind, Rule

_UNEXPLAINED_NS = 20 * NS_PER_US  # shorter delays are the spread of the modelled lags
_AFTER_NS = 10 * NS_PER_US  # a waiting kernel starts this soon after cores come free
_TAIL = 10  # one over the share of a kernel's duration that counts as its tail


def occupancy(edges: EdgeList, ops: Numbered) -> EdgeList:
    """Edges from the kernel that held the device to each op that was held back."""
    device = np.isin(ops.kind, DEVICE_OPS)
    release = np.full(len(ops), np.iinfo(np.int64).min)
    np.maximum.at(release, edges.target, released_ns(edges, ops.measured))
    start, end = ops.measured.start_ns, ops.measured.end_ns
    held = device & (ops.kind != OpKind.TRANSFER) & (release >= 0) & (start - release > _UNEXPLAINED_NS)
    rows: list[tuple[int, int]] = []
    for rank in np.unique(ops.rank[held]):
        holders = np.flatnonzero((ops.rank == rank) & device & (ops.kind != OpKind.ARRIVAL) & (end > start))
        holders = holders[np.argsort(end[holders], kind="stable")]
        for op in np.flatnonzero(held & (ops.rank == rank)):
            source = _holder(int(op), holders, ops, int(release[op]))
            if source >= 0:
                rows.append((source, int(op)))
    source_ops = np.array([row[0] for row in rows], np.int64)
    target_ops = np.array([row[1] for row in rows], np.int64)
    lag = start[target_ops] - end[source_ops]
    return EdgeList.of(Rule.OCCUPANCY, source_ops, target_ops, lag_ns=lag, recorded=False)


def _holder(op: int, holders: Int64, ops: Numbered, release: int) -> int:
    """The op that let go when ``op`` started: the last to end just before it, else one in its tail; -1 none."""
    begin = int(ops.measured.start_ns[op])
    end = ops.measured.end_ns[holders]
    low, at = np.searchsorted(end, [begin - _AFTER_NS, begin + 1])
    for i in range(int(at) - 1, int(low) - 1, -1):
        if ops.lane[holders[i]] != ops.lane[op] and end[i] > release:
            return int(holders[i])
    for i in range(int(at), min(int(at) + 8, len(holders))):
        duration = int(ops.measured.end_ns[holders[i]] - ops.measured.start_ns[holders[i]])
        in_tail = ops.measured.start_ns[holders[i]] < begin and (end[i] - begin) * _TAIL <= duration
        if in_tail and ops.lane[holders[i]] != ops.lane[op]:
            return int(holders[i])
    return -1
