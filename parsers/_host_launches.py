"""Which c10d operator handed each host transfer to its backend (formats: Gloo in Kineto).

``c10d::allreduce_`` puts the work into the queue of its process group and returns; a worker thread draws it as
``gloo:all_reduce``. Sends and receives are posted by the calling thread itself: ``gloo:recv`` begins inside
``c10d::recv_``, on its thread, and ends when the thread that waits for it goes on. Nothing records the pairs; but
queues are first in, first out: the n-th operator of a kind and size made the n-th transfer of that kind and size.
"""

from __future__ import annotations

from collections import defaultdict, deque
from math import prod

import msgspec
import numpy as np

from parsers._comm_names import kind_of_name
from parsers._nesting import innermost
from replay.core.columns import Int64
from replay.trace import MISSING, CollectiveKind, EventKind, Trace

_DONE_AS = {CollectiveKind.REDUCE_SCATTER: CollectiveKind.ALL_REDUCE}  # how Gloo does what it has no algorithm for
_PREFIX = "c10d::"


def enqueuing_ops(trace: Trace, transfers: Int64) -> Int64:
    """Row of the operator that handed over each of ``transfers`` (rows of one rank, by start), -1 where none fits."""
    ops = _operators(trace, int(trace.rank[transfers[0]])) if len(transfers) else transfers
    if not len(ops):
        return np.full(len(transfers), MISSING, np.int64)
    found = innermost(trace.lane.astype(np.int64), trace.start_ns, trace.dur_ns, ops, transfers)
    waiting = _by_kind(trace, np.setdiff1d(ops, found))
    for at in np.flatnonzero(found < 0).tolist():
        found[at] = _take(trace, waiting, int(transfers[at]))
    return found


def _operators(trace: Trace, rank: int) -> Int64:
    named = [name.startswith(_PREFIX) and kind_of_name(name) != CollectiveKind.UNKNOWN for name in trace.names]
    ops = np.array(named, np.bool_)[trace.name] & (trace.kind == EventKind.CPU_OP) & (trace.rank == rank)
    return np.flatnonzero(ops)


def _by_kind(trace: Trace, ops: Int64) -> dict[CollectiveKind, deque[int]]:
    """Operators in order of start, by the kind of transfer they become."""
    queues: dict[CollectiveKind, deque[int]] = defaultdict(deque)
    for op in ops.tolist():
        kind = kind_of_name(trace.name_of(op))
        queues[_DONE_AS.get(kind, kind)].append(op)
    return queues


def _take(trace: Trace, waiting: dict[CollectiveKind, deque[int]], transfer: int) -> int:
    """Take the oldest waiting operator that began before ``transfer`` and has an argument of as many elements."""
    queue = waiting[CollectiveKind(int(trace.collectives.kind[trace.comm[transfer]]))]
    moved = sum(_arguments(trace, transfer))
    for op in queue:
        if trace.start_ns[op] > trace.start_ns[transfer]:
            break
        sizes = _arguments(trace, op)
        if not moved or not any(sizes) or moved in sizes:
            queue.remove(op)
            return op
    return MISSING


def _arguments(trace: Trace, row: int) -> list[int]:
    """Elements of every tensor, or list of tensors, among the inputs; empty where no shapes were recorded."""
    if trace.shape[row] < 0:
        return []
    try:
        dims = msgspec.json.decode(trace.shapes[trace.shape[row]])
    except msgspec.DecodeError:
        return []
    return [_elements(dim) for dim in dims] if isinstance(dims, list) else []


def _elements(dim: object) -> int:
    """Elements of one tensor ([2, 3] → 6) or of a list of them ([[2], [3]] → 5); 0 for anything else."""
    if not isinstance(dim, list) or not dim:
        return 0
    if all(isinstance(size, int) for size in dim):
        return prod(dim)
    return sum(map(_elements, dim))
