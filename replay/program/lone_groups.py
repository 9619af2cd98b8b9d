"""Collectives over groups of one rank: a program leaves them out, a target with larger groups has them.

They are put back into the measured graph without taking any time, where a program with larger groups runs them: the
exchange of tokens around the experts of every layer (dispatch before, combine behind; backward the other way round),
sums of gradients before the step's tail or beside the sums there are, and transfers behind a pass. Everything else then
treats them like any other collective.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.evidence import Grade
from replay.graph.types import DEVICE_OPS, CommTable, Edges, Graph, OpKind, Rule
from replay.program.comm_ops import lane_order
from replay.program.groups import description_of
from replay.program.types import Labels, Phase, Role
from replay.trace import CollectiveKind, Group, Lane

_TAIL_PHASES = (Phase.SYNC, Phase.OPTIMIZER)


@dataclass(frozen=True, slots=True)
class LoneCollective:
    """One collective to put back on a rank, between device ops of it (-1 none)."""

    kind: CollectiveKind
    family: str
    nbytes: int
    before: int  # the op it waits for
    after: int  # the op that waits for it
    beside: int  # the op whose launch launches it too, -1 for none
    time_ns: int  # its place in the order of the rank
    label: tuple[int, int, int, int, int]  # phase, role, micro-batch, chunk, layer
    rank: int

    @property
    def stream(self) -> tuple[str, int, CollectiveKind]:
        """The lane it runs on: one for each of a rank's groups, and for each direction of transfers."""
        return self.family, self.rank, self.kind


def with_collectives(graph: Graph, labels: Labels, added: list[LoneCollective]) -> tuple[Graph, Labels]:
    """``graph`` and ``labels`` with ``added`` collectives that take no time; the step stays as it is."""
    return (_graph(graph, added), _labels(labels, added)) if added else (graph, labels)


def lone_exchanges(graph: Graph, labels: Labels, experts: Bool, nbytes: int) -> list[LoneCollective]:
    """Dispatch and combine around the ``experts`` ops of every pass through a layer; ``nbytes`` = T · k · h · 2."""
    found: list[LoneCollective] = []
    order = lane_order(graph)
    place = np.full(len(graph), -1, np.int64)
    place[order] = np.arange(len(order))
    for first, last in _passes(graph, labels, experts):
        previous = _neighbour(graph, order, int(place[first]) - 1, first)
        following = _neighbour(graph, order, int(place[last]) + 1, last)
        columns = (labels.phase, labels.microbatch, labels.chunk, labels.layer)
        phase, microbatch, chunk, layer = (int(column[first]) for column in columns)
        roles = (Role.DISPATCH, Role.COMBINE) if phase == Phase.FORWARD else (Role.COMBINE, Role.DISPATCH)
        for before, after, beside, role in ((previous, first, first, roles[0]), (last, following, last, roles[1])):
            time_ns = int(graph.measured_start_ns[first] if beside == first else graph.measured_end_ns[last])
            label = (phase, int(role), microbatch, chunk, layer)
            where = (before, after, beside, time_ns, label, int(graph.rank[first]))
            found.append(LoneCollective(CollectiveKind.ALL_TO_ALL, "ep", nbytes, *where))
    return found


def lone_gradient_sums(graph: Graph, labels: Labels, nbytes: dict[tuple[int, int], int]) -> list[LoneCollective]:
    """The sum of dense gradients of every (rank, chunk) in ``nbytes``, before what follows the last pass."""
    found = []
    device = np.isin(graph.kind, DEVICE_OPS)
    tail = _in_tail(labels)
    for (rank, chunk), size in nbytes.items():
        own = graph.rank == rank
        later = np.flatnonzero(own & tail)
        work = np.flatnonzero(own & ~tail & device & (labels.microbatch >= 0))
        if not len(work):
            continue
        before = int(work[np.argmax(graph.measured_end_ns[work])])
        device_tail = later[device[later]]
        after = int(device_tail[np.argmin(graph.measured_start_ns[device_tail])]) if len(device_tail) else -1
        begin = int(graph.measured_start_ns[later].min() if len(later) else graph.measured_end_ns[before]) - 1
        label = (int(Phase.SYNC), int(Role.GRAD_SYNC), -1, chunk, -1)
        found.append(LoneCollective(CollectiveKind.ALL_REDUCE, "dp", size, before, after, -1, begin, label, rank))
    return found


def beside_sums(graph: Graph, labels: Labels, nbytes: Mapping[int, int]) -> list[LoneCollective]:
    """Sums of expert gradients behind the sums of dense ones in ``nbytes``; what waits for one waits for both."""
    edges = graph.edges
    rows = np.flatnonzero((edges.rule == Rule.EVENT) & np.isin(edges.source, list(nbytes)))[::-1]
    waiting = dict(zip(edges.source[rows].tolist(), edges.target[rows].tolist(), strict=True))  # the first of each
    arrivals = np.flatnonzero((graph.kind == OpKind.ARRIVAL) & (graph.comm >= 0))
    arrival_of = dict(zip(graph.comm[arrivals].tolist(), arrivals.tolist(), strict=True))
    columns = (labels.phase, labels.role, labels.microbatch, labels.chunk, labels.layer)
    found = []
    for op, size in nbytes.items():
        phase, role, *place = (int(column[op]) for column in columns)
        where = (waiting.get(op, -1), arrival_of.get(int(graph.comm[op]), op), int(graph.measured_end_ns[op]))
        label = (phase, role, place[0], place[1], place[2])
        rank = int(graph.rank[op])
        found.append(LoneCollective(CollectiveKind.ALL_REDUCE, "edp", size, op, *where, label, rank))
    return found


def lone_transfers(graph: Graph, labels: Labels, nbytes: int) -> list[LoneCollective]:
    """A send and a receive for one pass of every phase and rank, named for it and placed behind all passes.

    Nothing says what they wait for: in a target they wait for the work of their pass.
    """
    found = []
    for rank in np.unique(graph.rank).tolist():
        own = graph.rank == rank
        later = graph.measured_start_ns[own & _in_tail(labels)]
        time_ns = int(later.min() if len(later) else graph.measured_end_ns[own].max()) - 1
        for kind, phase in product((CollectiveKind.SEND, CollectiveKind.RECV), (Phase.FORWARD, Phase.BACKWARD)):
            passed = own & (labels.phase == phase) & (labels.microbatch >= 0)
            if passed.any():
                place = (int(labels.microbatch[passed].max()), int(labels.chunk[passed].max()), -1)
                label = (int(phase), int(Role.P2P), *place)
                found.append(LoneCollective(kind, "pp", nbytes, -1, -1, -1, time_ns, label, rank))
    return found


def _in_tail(labels: Labels) -> Bool:
    """Ops of the step's tail."""
    return np.asarray(np.isin(labels.phase, _TAIL_PHASES) & (labels.microbatch < 0))


def _passes(graph: Graph, labels: Labels, experts: Bool) -> Iterator[tuple[int, int]]:
    """First and last expert op on its lane of every pass through a layer."""
    ops = np.flatnonzero(experts & np.isin(labels.phase, (Phase.FORWARD, Phase.BACKWARD)) & (labels.layer >= 0))
    columns = (graph.rank, labels.phase, labels.microbatch, labels.chunk, labels.layer)
    keys = np.stack([column[ops].astype(np.int64) for column in columns])
    order = np.lexsort((graph.measured_start_ns[ops], *keys[::-1]))
    ops, keys = ops[order], keys[:, order]
    for run in np.split(ops, np.flatnonzero(np.any(keys[:, 1:] != keys[:, :-1], axis=0)) + 1):
        if len(run):
            same = run[graph.lane[run] == graph.lane[run[0]]]
            yield int(same[0]), int(same[-1])


def _neighbour(graph: Graph, order: Int64, at: int, op: int) -> int:
    """The op at a place of the lane order if it is on the lane of ``op``, else -1."""
    found = int(order[at]) if 0 <= at < len(order) else -1
    return found if found >= 0 and graph.lane[found] == graph.lane[op] else -1


def _graph(graph: Graph, added: list[LoneCollective]) -> Graph:
    """Two ops (arrival, transfer) and a row of the communication table for each."""
    n, rows = len(graph), len(graph.comms)
    streams = list(dict.fromkeys(item.stream for item in added))
    names = list(dict.fromkeys(item.kind.name.lower() for item in added))
    place = {stream: number for number, stream in enumerate(streams)}
    where = np.repeat([place[item.stream] for item in added], 2)
    zero = np.zeros(len(where), np.int64)
    columns = {
        "duration_ns": zero,
        "residual_ns": zero,
        "ready_ns": zero,
        "measured_start_ns": np.repeat([item.time_ns for item in added], 2),
        "measured_end_ns": np.repeat([item.time_ns for item in added], 2),
        "lane": len(graph.lanes) + where,
        "rank": np.repeat([item.rank for item in added], 2),
        "kind": np.tile([OpKind.ARRIVAL, OpKind.TRANSFER], len(added)),
        "name": np.repeat([len(graph.names) + names.index(item.kind.name.lower()) for item in added], 2),
        "event": zero - 1,
        "comm": np.repeat(rows + np.arange(len(added)), 2),
        "grade": np.full(len(where), Grade.ASSUMED),
    }
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(graph, name), column.astype(getattr(graph, name).dtype)])
        for name, column in columns.items()
    }
    groups = tuple(Group(f"{family} of rank {rank}", description_of(family), (rank,), 1) for family, rank, _ in streams)
    return replace(
        graph,
        **joined,
        edges=_edges(graph, added, n),
        comms=_comms(graph.comms, added, len(graph.groups) + where[::2]),
        names=(*graph.names, *names),
        lanes=(*graph.lanes, *(Lane(rank, is_device=True, label=f"{kind.name.lower()}") for _, rank, kind in streams)),
        groups=(*graph.groups, *groups),
    )


def _edges(graph: Graph, added: list[LoneCollective], n: int) -> Edges:
    """Work before, arrival, transfer, work behind; the launch beside; the order of each stream."""
    edges = graph.edges
    launch = {
        int(op): (int(edges.source[row]), int(edges.lag_ns[row])) for row, op in zip(*_launches(edges), strict=True)
    }
    made: list[tuple[int, int, int, Rule]] = []
    last: dict[tuple[str, int, CollectiveKind], int] = {}
    for i in sorted(range(len(added)), key=lambda i: (added[i].time_ns, i)):
        item, arrival = added[i], n + 2 * i
        made.append((arrival, arrival + 1, 0, Rule.COLLECTIVE))
        if item.before >= 0:
            made.append((item.before, arrival, 0, Rule.EVENT))
        if item.after >= 0:
            made.append((arrival + 1, item.after, 0, Rule.EVENT))
        if item.beside in launch:
            host, lag = launch[item.beside]
            made.append((host, arrival, lag, Rule.LAUNCH))
        if item.stream in last:
            made.append((last[item.stream], arrival, 0, Rule.STREAM_ORDER))
        last[item.stream] = arrival + 1
    source, target, lag_ns, rule = np.array(made, np.int64).T
    no = np.zeros(len(made), np.bool_)
    return Edges.build(
        n + 2 * len(added),
        np.concatenate([edges.source.astype(np.int64), source]),
        np.concatenate([edges.target.astype(np.int64), target]),
        np.concatenate([edges.lag_ns, lag_ns]),
        np.concatenate([edges.from_start, no]),
        np.concatenate([edges.rule, rule.astype(np.int8)]),
        np.concatenate([edges.recorded, no]),
    )


def _launches(edges: Edges) -> tuple[list[int], list[int]]:
    rows = np.flatnonzero(edges.rule == Rule.LAUNCH)
    return rows.tolist(), edges.target[rows].tolist()


def _comms(comms: CommTable, added: list[LoneCollective], group: Int64) -> CommTable:
    count = len(added)
    one = np.ones(count, np.int32)
    zero = np.zeros(count, np.int64)
    first = int(comms.match.max(initial=-1)) + 1
    return CommTable(
        np.concatenate([comms.kind, np.array([item.kind for item in added], np.int8)]),
        np.concatenate([comms.group, group.astype(np.int32)]),
        np.concatenate([comms.nbytes, np.array([item.nbytes for item in added], np.int64)]),
        np.concatenate([comms.match, first + np.arange(count)]),
        np.concatenate([comms.size, one]),
        np.concatenate([comms.seen, one]),
        np.concatenate([comms.transfer_low_ns, zero]),
        np.concatenate([comms.transfer_high_ns, zero]),
        {name: np.concatenate([share, np.zeros(count)]) for name, share in comms.links.items()},
    )


def _labels(labels: Labels, added: list[LoneCollective]) -> Labels:
    """Labels of the added ops; all of a kind and role are instances of one op."""
    names = ("phase", "role", "microbatch", "chunk", "layer")
    stated = np.repeat(np.array([item.label for item in added], np.int64), 2, axis=0).T
    columns = dict(zip(names, stated, strict=True))
    kinds = {key: i for i, key in enumerate(dict.fromkeys((item.kind, item.label[:2]) for item in added))}
    first = int(labels.template.max(initial=-1)) + 1
    number = np.array([2 * kinds[item.kind, item.label[:2]] for item in added], np.int64)
    columns["template"] = first + np.stack([number, number + 1], axis=1).reshape(-1)
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(labels, name), column.astype(getattr(labels, name).dtype)])
        for name, column in columns.items()
    }
    return replace(labels, **joined)
