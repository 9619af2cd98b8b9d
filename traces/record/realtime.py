"""Real-time scheduling, so that other work on the machine does not enter the measurement.

Round robin (SCHED_RR) in two levels: device streams go before hosts, else a kernel's end would wait for the hosts of
other ranks, which share the same few cores. Gloo's network thread and whoever calls Gloo must be on one level: each
polls at times for what the other holds (the thread for a pair's lock, a finished receive for the thread's reference),
and polling from a higher level would keep the other from letting it go.
"""

from __future__ import annotations

import os
from enum import IntEnum
from pathlib import Path

_THREADS = Path("/proc/self/task")
NORMAL, REAL_TIME = "normal", "real-time"


class Level(IntEnum):
    """Priority of a thread."""

    HOST = 20
    STREAM = 30  # also Gloo's


def enter(level: Level) -> str:
    """Put this thread, and threads it starts from now on, on that level; ``normal`` where this is not permitted."""
    return _put(0, level)


def enter_with_transport() -> str:
    """Put the threads that Gloo has started on the streams' level, and this one on the hosts'.

    Only after every process has joined all groups: one that polls for the others would starve those that still start.
    """
    if _THREADS.is_dir():
        for thread in _THREADS.iterdir():
            _put(int(thread.name), Level.STREAM)
    return _put(0, Level.HOST)


def leave() -> None:
    """Back to normal scheduling, for work that is not part of a measurement."""
    if _THREADS.is_dir():
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _put(thread: int, level: Level) -> str:
    if not _THREADS.is_dir():  # not Linux
        return NORMAL
    try:
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(level))
    except PermissionError:
        return NORMAL
    return REAL_TIME
