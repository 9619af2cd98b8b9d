"""Numba kernels of the engine: bare arrays, integer time. :mod:`replay.simulate.reference` specifies them."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Int32, Int64
from replay.core.jit import kernel


@kernel
def topological_order(source: Int32, offsets: Int64) -> Int32:
    """Ops in an order in which every edge points forward; shorter than n when some ops wait for each other.

    Kahn's algorithm with a stack, so that a chain of ops (a lane) stays together in memory order.
    """
    n = len(offsets) - 1
    fan_out = np.zeros(n + 1, np.int64)
    for edge in range(len(source)):
        fan_out[source[edge] + 1] += 1
    for op in range(n):
        fan_out[op + 1] += fan_out[op]
    cursor = fan_out[:n].copy()
    successor = np.empty(len(source), np.int32)
    waiting = np.empty(n, np.int32)
    for op in range(n):
        waiting[op] = offsets[op + 1] - offsets[op]
        for edge in range(offsets[op], offsets[op + 1]):
            successor[cursor[source[edge]]] = op
            cursor[source[edge]] += 1

    order = np.empty(n, np.int32)
    stack = np.empty(n, np.int32)
    depth = 0
    for op in range(n - 1, -1, -1):
        if waiting[op] == 0:
            stack[depth] = op
            depth += 1
    done = 0
    while depth > 0:
        depth -= 1
        op = stack[depth]
        order[done] = op
        done += 1
        for slot in range(fan_out[op], fan_out[op + 1]):
            after = successor[slot]
            waiting[after] -= 1
            if waiting[after] == 0:
                stack[depth] = after
                depth += 1
    return order[:done]


@kernel
def longest_path(
    order: Int32,
    duration: Int64,
    delay: Int64,
    ready: Int64,
    source: Int32,
    lag: Int64,
    from_start: Bool,
    offsets: Int64,
) -> tuple[Int64, Int64, Int64]:
    """Start, end and releasing edge of every op, in one forward pass over a topological order."""
    n = len(duration)
    start = np.empty(n, np.int64)
    end = np.empty(n, np.int64)
    bound_by = np.empty(n, np.int64)
    for k in range(n):
        op = order[k]
        release = ready[op]
        bound = -1
        for edge in range(offsets[op], offsets[op + 1]):
            before = source[edge]
            time = (start[before] if from_start[edge] else end[before]) + lag[edge]
            if time > release or (time == release and bound < 0):
                release = time
                bound = edge
        start[op] = release + delay[op]
        end[op] = start[op] + duration[op]
        bound_by[op] = bound
    return start, end, bound_by
