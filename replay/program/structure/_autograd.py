"""What the autograd engine ran: backward nodes, the operators that made them, and the runs of the engine.

Every operator that makes a backward node carries the number the node gets ("Sequence number"), counted per thread; the
engine shows it again on the node. Operators that make no node show the number the next one will get, so several share
one and the last to begin made the node. A run, one call of ``backward()``, takes its nodes in falling order of number
(``torch/csrc/autograd/engine.cpp``: ready queues are ordered by sequence number), so a rise begins another run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.jit import kernel
from replay.program.structure._calls import Calls
from replay.trace import EventKind, Trace

NODE = re.compile(
    r"autograd::engine::evaluate_function|(?:^|::)\w*Backward\d*$|AccumulateGrad$|^torch::autograd::CppNode<"
)
"""Names of operators that are backward nodes (``AddmmBackward0``, ``torch::autograd::CppNode<SplitLookup...>``)."""


@dataclass(frozen=True, slots=True)
class Autograd:
    """``node`` is the outermost backward node of every call, -1 outside of the engine; ``number`` its sequence number.

    Other columns have a row per node: ``nodes`` are calls, by (rank, thread, begin); ``made_by`` is the call that made
    each one, -1 not known (leaves, work from before the trace); ``run`` numbers each rank's runs in order of begin.
    """

    node: Int64
    number: Int64
    nodes: Int64
    made_by: Int64
    run: Int64
    home: Mapping[int, int]  # thread that made most nodes of each rank

    def __len__(self) -> int:
        return len(self.nodes)


def autograd(trace: Trace, calls: Calls) -> Autograd:
    """Nodes, makers and runs among the calls of a trace."""
    is_node = np.array([bool(NODE.search(name)) for name in trace.names], np.bool_)
    operator = trace.kind[calls.event] == EventKind.CPU_OP
    node = calls.outermost(operator & is_node[calls.names(trace)])
    nodes = np.flatnonzero(node == np.arange(len(calls)))
    order = np.lexsort((trace.start_ns[calls.event[nodes]], trace.lane[calls.event[nodes]]))
    nodes = nodes[order]
    number = _numbers(trace.sequence[calls.event], node, operator & is_node[calls.names(trace)])
    forward = np.flatnonzero((node < 0) & operator & (number >= 0)).astype(np.int64)
    made_by = _makers(trace, calls, nodes, forward, number)
    home = _homes(trace, calls.event[nodes], calls.event[made_by], made_by >= 0)
    return Autograd(node, number, nodes, made_by, _runs(trace, calls, nodes, node, home, number), home)


def _numbers(sequence: Int64, node: Int64, named: Bool) -> Int64:
    """Number of every call; a node without one has that of the first call in it that is ``named`` like a node, too.

    torch_npu leaves the engine's own range unnumbered; the backward function inside has the number.
    """
    number = sequence.copy()
    inside = np.flatnonzero(named & (sequence >= 0) & (sequence[node] < 0) & (node >= 0))[::-1]
    number[node[inside]] = sequence[inside]  # of equal nodes the last one written, which is the first call, counts
    return number


def _homes(trace: Trace, node: Int64, maker: Int64, known: Bool) -> dict[int, int]:
    """Lane on which most of the nodes of each rank were made."""
    ranks = trace.rank[node]
    return {
        rank: int(np.bincount(trace.lane[maker[known & (ranks == rank)]]).argmax())
        for rank in np.unique(ranks[known]).tolist()
    }


def _makers(trace: Trace, calls: Calls, nodes: Int64, forward: Int64, number: Int64) -> Int64:
    """The call that made each node: of its rank and number, the last to begin before it.

    Numbers are per thread: where two threads used one, the thread that made more of the rank's nodes is taken.
    """
    rank, lane = trace.rank[calls.event], trace.lane[calls.event]
    start = trace.start_ns[calls.event]
    made_by = np.full(len(nodes), -1, np.int64)
    for r in np.unique(rank[nodes]).tolist():
        own = np.flatnonzero((rank[nodes] == r) & (number[nodes] >= 0))
        matches = [
            _last_before(number, start, nodes[own], forward[lane[forward] == thread])
            for thread in np.unique(lane[forward][rank[forward] == r]).tolist()
        ]
        for found in sorted(matches, key=lambda match: -int((match >= 0).sum())):
            made_by[own] = np.where(made_by[own] < 0, found, made_by[own])
    return made_by


def _last_before(sequence: Int64, start: Int64, nodes: Int64, forward: Int64) -> Int64:
    """The last of the ``forward`` calls of one thread with the number of each node, -1 for none or a later one."""
    by_number = forward[np.lexsort((start[forward], sequence[forward]))]
    at = np.searchsorted(sequence[by_number], sequence[nodes], side="right") - 1
    found = by_number[np.maximum(at, 0)]
    fits = (at >= 0) & (sequence[found] == sequence[nodes]) & (start[found] < start[nodes])
    return np.where(fits, found, -1)


def _runs(trace: Trace, calls: Calls, nodes: Int64, node: Int64, home: Mapping[int, int], number: Int64) -> Int64:
    """Number of the run of every node, counted per rank.

    Another run begins where numbers rise, or where the thread that makes the rank's nodes worked since the last node:
    it waits while the engine runs.
    """
    rank, lane, start = (column[calls.event] for column in (trace.rank, trace.lane, trace.start_ns))
    end = trace.end_ns[calls.event]
    operator = (trace.kind[calls.event] == EventKind.CPU_OP) & (node < 0)
    run = np.full(len(nodes), -1, np.int64)
    for r in np.unique(rank[nodes]).tolist():
        own = np.flatnonzero(rank[nodes] == r)
        own = own[np.argsort(start[nodes[own]], kind="stable")]
        at = nodes[own]
        busy = np.sort(start[operator & (lane == home.get(r, -1))])
        worked = np.searchsorted(busy, start[at[1:]]) > np.searchsorted(busy, end[at[:-1]])
        run[own] = np.cumsum(_begins(number[at], np.r_[False, worked]))
    return run


@kernel
def _begins(sequence: Int64, worked: Bool) -> Bool:  # pragma: no cover - compiled
    """Where ``worked``, and where a number is above all of its run; unnumbered nodes (leaves) never are."""
    begins = worked.copy()
    top = np.int64(-1)
    for i in range(len(sequence)):
        if worked[i]:
            top = sequence[i]
        elif sequence[i] > top:
            begins[i] = top >= 0
            top = sequence[i]
    return begins
