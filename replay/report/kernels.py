"""Numba kernels of the reports: bare arrays in, arrays out, integer time."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int32, Int64
from replay.core.jit import kernel


@kernel
def share_by_priority(time: Int64, row: Int64, state: Int64, delta: Int64, shape: tuple[int, int], end: int) -> Int64:
    """Time of every (row, state), giving each instant to the lowest active state of its row.

    Events are sorted by (row, time); ``delta`` is +1 where an interval of ``state`` begins and -1 where it ends. The
    last state takes the instants at which nothing is active, so every row sums to ``end``.
    """
    rows, states = shape
    total = np.zeros((rows, states), np.int64)
    active = np.zeros(states, np.int64)
    event = 0
    for r in range(rows):
        active[:] = 0
        now = 0
        current = states - 1
        while event < len(time) and row[event] == r:
            if time[event] > now:
                total[r, current] += time[event] - now
                now = time[event]
            active[state[event]] += delta[event]
            current = states - 1
            for s in range(states - 1):
                if active[s] > 0:
                    current = s
                    break
            event += 1
        total[r, states - 1] += end - now
    return total


@kernel
def walk_back(last: int, bound_by: Int64, source: Int32) -> Int64:
    """Ops from ``last`` back along the edges that released them, ending with an op bound by its own ready time."""
    path = np.empty(len(bound_by), np.int64)
    path[0] = last
    length = 1
    while bound_by[path[length - 1]] >= 0:
        path[length] = source[bound_by[path[length - 1]]]
        length += 1
    return path[:length]


@kernel
def first_free_track(lane: Int64, start: Int64, end: Int64) -> Int64:
    """Per interval, the first track of its lane that is free when it starts; intervals are sorted by (lane, start)."""
    n = len(lane)
    track = np.empty(n, np.int64)
    free_at = np.empty(n, np.int64)
    tracks = 0
    for i in range(n):
        if i == 0 or lane[i] != lane[i - 1]:
            tracks = 0
        t = 0
        while t < tracks and free_at[t] > start[i]:
            t += 1
        if t == tracks:
            tracks += 1
        free_at[t] = end[i]
        track[i] = t
    return track
