"""Host spins (R2): a thread that waits in a loop for a flag which device work sets.

Expert dispatch without a cached layout needs received counts on the host: after launching the notify kernel the thread
spins until the counts arrive. Nothing records that wait. It shows as silence that begins after the launch of a notify
kernel and ends as that kernel does (the flag may be set a little before the kernel's last instruction).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.units import NS_PER_US
from replay.graph.handover import Activity
from replay.graph.launch_join import Launches
from replay.graph.selection import RankStep
from replay.trace import CollectiveKind, Trace

_WAKE_NS = 50 * NS_PER_US  # a polling loop notices its flag sooner than this
_TAIL = 10  # one over the last part of a kernel, in which the flag may be set already


@dataclass(frozen=True, slots=True)
class Spin:
    """Thread ``waiter`` was silent over [from_ns, until_ns] and was released by device event ``event``."""

    waiter: int  # lane
    from_ns: int
    until_ns: int
    event: int
    lag_ns: int  # from the event's end to the thread's next act; may be negative


def find_spins(trace: Trace, launches: Launches, step: RankStep, threads: tuple[Activity, ...]) -> tuple[Spin, ...]:
    """All spins of one rank, in order of time."""
    comm = step.device[trace.comm[step.device] >= 0]
    notify = comm[trace.collectives.kind[trace.comm[comm]] == CollectiveKind.NOTIFY]
    notify = notify[launches.call[notify] >= 0]
    spins: list[Spin] = []
    for thread in threads if len(notify) else ():
        mine = notify[trace.lane[launches.call[notify]] == thread.lane]
        launched = trace.end_ns[launches.call[mine]]
        for begin, end in zip(*thread.gaps(), strict=True):
            last = int(np.searchsorted(launched, begin, side="right")) - 1
            if last < 0:
                continue
            lag = int(end) - trace.end_of(int(mine[last]))
            tail = int(trace.dur_ns[mine[last]]) // _TAIL
            if -tail <= lag <= _WAKE_NS and begin < end - lag - tail:
                spins.append(Spin(thread.lane, int(begin), int(end), int(mine[last]), lag))
    return tuple(spins)
