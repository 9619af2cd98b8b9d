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
from replay.graph.selection import Launches, RankStep
from replay.trace import CollectiveKind, Trace

_WAKE_NS = 100 * NS_PER_US  # the flag is set, and noticed, this close to the kernel's end


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
            if abs(lag) <= _WAKE_NS and end - begin > 2 * _WAKE_NS:
                spins.append(Spin(thread.lane, int(begin), int(end), int(mine[last]), lag))
    return tuple(spins)
