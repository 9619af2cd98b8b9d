"""Device work of one rank in the order in which it was launched: what evidence without ranges is read from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.parallel_kind import ParallelKind, kind_of_group
from replay.graph.types import DEVICE_OPS, Graph, OpKind, Rule
from replay.program.comm_ops import P2P_KINDS, comm_group, comm_kind
from replay.program.kernel_words import kernel_codes
from replay.program.structure._evidence import Evidence
from replay.program.template_ids import row_ids
from replay.trace import CollectiveKind, EventKind

SUMS = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE)
"""Collectives that sum over ranks."""

_LARGE = 4096  # bytes; what a gradient norm or a loss sums is a few numbers


@dataclass(frozen=True, slots=True)
class Sequence:
    """Ops of one rank (rows of the graph) in launch order."""

    rank: int
    op: Int64
    compute: Bool  # per element of ``op``: a kernel that computes
    transfer: Bool  # per element: a pipeline send or receive

    def cuts(self) -> Int64:
        """Batches of pipeline transfers before each op; a transfer counts with the batch that it is in."""
        begins = self.transfer & ~np.r_[False, self._in_batch()[:-1]]
        return np.cumsum(begins)

    def _in_batch(self) -> Bool:
        """True from the first transfer of a batch until the next compute op."""
        return np.asarray(around(self.transfer)[0] > around(self.compute)[0])


def around(marked: Bool) -> tuple[Int64, Int64]:
    """Index of the last marked element up to each one (-1: none), and of the first from it on (the length: none)."""
    index = np.arange(len(marked))
    before = np.maximum.accumulate(np.where(marked, index, -1))
    after = np.minimum.accumulate(np.where(marked, index, len(index))[::-1])[::-1]
    return before, after


def sequences(evidence: Evidence) -> list[Sequence]:
    """Device work of every rank; where a rank has none, the host's own compute."""
    graph, places = evidence.graph, evidence.places
    work = np.flatnonzero(np.isin(graph.kind, DEVICE_OPS))
    work = work[np.lexsort((work, graph.measured_start_ns[work], places.time_ns[work], graph.rank[work]))]
    transfer = pipeline_transfers(evidence)
    ranks, first = np.unique(graph.rank[work], return_index=True)
    return [
        Sequence(int(rank), op, graph.kind[op] == OpKind.COMPUTE, transfer[op])
        for rank, op in zip(ranks, np.split(work, first[1:]), strict=True)
    ]


def pipeline_transfers(evidence: Evidence) -> Bool:
    """Sends and receives between pipeline stages: those of a pipeline group.

    Where the layout has several stages, those of a group that says nothing too; context parallelism exchanges as well.
    """
    return possible_transfers(evidence, unnamed=evidence.layout.pp > 1)


def possible_transfers(evidence: Evidence, *, unnamed: bool) -> Bool:
    """Sends and receives of pipeline groups, and with ``unnamed`` those of groups that say nothing."""
    said = group_kinds(evidence.graph)
    among_stages = (said == ParallelKind.PP) | ((said < 0) & unnamed)
    return np.asarray(np.isin(comm_kind(evidence.graph), P2P_KINDS) & among_stages)


def told_by_group(evidence: Evidence) -> Bool:
    """Ops of which the group of a collective says more than the time of their launch.

    Pipeline transfers and gradient sums (of groups without a name: those behind the last backward node) with their
    launches, and what the host does around transfers, from the last compute launched before them to the first one
    behind.
    """
    graph, places = evidence.graph, evidence.places
    told = np.isin(comm_kind(graph), SUMS) & (group_kinds(graph) == ParallelKind.DP)
    told |= large_unnamed_sums(graph) & (places.time_ns > _last_node_ns(evidence))
    told |= pipeline_transfers(evidence)
    launches = graph.edges.rule == Rule.LAUNCH
    launches &= told[graph.edges.target]
    told[graph.edges.source[launches]] = True
    host = ~np.isin(graph.kind, DEVICE_OPS)
    for sequence in sequences(evidence):
        if sequence.transfer.any():
            own = np.flatnonzero(host & (graph.rank == sequence.rank))
            told[own] |= _beside_transfers(sequence, places.time_ns[sequence.op], places.time_ns[own])
    return np.asarray(told)


def large_unnamed_sums(graph: Graph) -> Bool:
    """Sums over groups that bear no name, of more than the few numbers of a gradient norm or a loss."""
    large = np.zeros(len(graph), np.bool_)
    member = graph.comm >= 0
    nbytes = graph.comms.nbytes[graph.comm[member]]
    large[member] = (nbytes < 0) | (nbytes > _LARGE)
    return np.asarray(large & np.isin(comm_kind(graph), SUMS) & (group_kinds(graph) < 0))


def _last_node_ns(evidence: Evidence) -> Int64:
    """End of the last backward node of every op's rank, beyond all times where it has none."""
    trace = evidence.trace
    node = evidence.calls.event[evidence.engine.nodes]
    last = np.full(int(max(trace.ranks, default=0)) + 1, -1, np.int64)
    np.maximum.at(last, trace.rank[node], trace.end_ns[node])
    return np.where(last < 0, np.iinfo(np.int64).max, last)[evidence.graph.rank]


def _beside_transfers(sequence: Sequence, time_ns: Int64, at_ns: Int64) -> Bool:
    """Times between two launches of compute that have a transfer in between."""
    computed = time_ns[sequence.compute]
    between = np.unique(np.searchsorted(computed, time_ns[sequence.transfer], side="right"))
    place = np.searchsorted(computed, at_ns, side="right")
    return np.isin(place, between) & ~np.isin(at_ns, computed)


def group_kinds(graph: Graph) -> Int64:
    """ParallelKind that the group of every op's collective names, -1 where it names none."""
    named = [kind_of_group(group) for group in graph.groups]
    by_group = np.array([-1 if kind is None else int(kind) for kind in named] + [-1], np.int64)
    return by_group[comm_group(graph)]


def symbols(evidence: Evidence) -> Int64:
    """Equal for ops that do the same: kernel, name of the framework operator that launched it, and its group."""
    graph, trace, calls = evidence.graph, evidence.trace, evidence.calls
    caller = np.full(len(graph), -1, np.int64)
    if len(calls):
        operator = calls.innermost(trace.kind[calls.event] == EventKind.CPU_OP)
        names = np.where(operator >= 0, calls.names(trace)[operator], -1)
        caller = calls.at_ops(names)
    grouped = (comm_group(graph) >= 0).astype(np.int64)
    return row_ids(kernel_codes(graph), caller, group_kinds(graph), comm_kind(graph), grouped)
