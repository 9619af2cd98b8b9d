"""What host threads wait for on ranks without a device (R2): transfers that other threads of the host carry out.

``Work.wait`` records nothing. A thread that handed a transfer over and is silent when it ends was waiting for it, from
the silence's begin on; what is left of the silence afterwards is host work. A thread that was busy when its transfer
ended (gradient buckets that overlap the backward pass) waits for it later, at the latest together with the next one of
the same group. Of sends and receives it is recorded when their wait returned: that is where they are waited for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_US
from replay.graph.handover import Activity
from replay.graph.launch_join import Launches
from replay.trace import CollectiveKind, Trace

_COINCIDENCE_NS = 50 * NS_PER_US  # a shorter silence before a transfer's end may be a pause between operators
_PAIRWISE = (CollectiveKind.SEND, CollectiveKind.RECV)


@dataclass(frozen=True, slots=True)
class TransferWait:
    """Thread ``waiter`` was silent over [from_ns, until_ns], and released at ``released_ns`` by the last transfer."""

    waiter: int  # lane
    from_ns: int
    until_ns: int
    released_ns: int
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TransferWaits:
    """Silent waits, and calls that returned after the transfers they handed over: (call, transfer)."""

    silences: tuple[TransferWait, ...]
    in_calls: tuple[tuple[int, int], ...]


def transfer_waits(trace: Trace, launches: Launches, thread: Activity, acts: Int64, transfers: Int64) -> TransferWaits:
    """Waits of one thread; ``acts`` are its calls and compute in order, ``transfers`` what may have released it."""
    silences: dict[int, list[int]] = defaultdict(list)  # begin → transfers that the thread waited for in it
    in_calls: list[tuple[int, int]] = []
    later: list[int] = []
    starts = trace.start_ns[acts]
    for event in transfers[np.argsort(trace.end_ns[transfers], kind="stable")].tolist():
        noticed, call = _noticed(trace, launches, event), int(launches.call[event])
        at = int(np.searchsorted(starts, noticed)) - 1  # the last act that began before the thread could go on
        act = int(acts[at]) if at >= 0 else -1
        begin = int(thread.boundary_ns[np.searchsorted(thread.boundary_ns, noticed) - 1])
        busy = act >= 0 and trace.end_of(act) >= noticed
        coincides = launches.noticed_ns[event] < 0 and act != call and noticed - begin < _COINCIDENCE_NS
        if busy and act == call:
            in_calls.append((call, event))
        elif busy or coincides:
            later.append(event)
        else:
            silences[begin].append(event)
    waits = [_silence(trace, launches, thread, begin, events) for begin, events in sorted(silences.items())]
    return TransferWaits(tuple(_with_older(trace, waits, later)), tuple(in_calls))


def _noticed(trace: Trace, launches: Launches, event: int) -> int:
    """When the waiting thread could go on: recorded for what it posted itself, else the transfer's end."""
    recorded = int(launches.noticed_ns[event])
    return recorded if recorded >= 0 else trace.end_of(event)


def _silence(trace: Trace, launches: Launches, thread: Activity, begin: int, events: list[int]) -> TransferWait:
    """A silence from ``begin`` on, or only the moment in which the thread noticed that all ``events`` were over."""
    noticed = max(_noticed(trace, launches, event) for event in events)
    over = max(map(trace.end_of, events))
    after = int(np.searchsorted(thread.boundary_ns, noticed))
    until = int(thread.boundary_ns[after]) if after < len(thread.boundary_ns) else noticed
    waited = over > begin
    return TransferWait(thread.lane, begin if waited else noticed, until, over if waited else noticed, tuple(events))


def _with_older(trace: Trace, silences: list[TransferWait], older: list[int]) -> list[TransferWait]:
    """Each of the ``older`` transfers is waited for, at the latest, with the next one of its group."""
    waits = []
    for wait in silences:
        ways = {_way(trace, event) for event in wait.events}
        joined = [event for event in older if trace.end_of(event) <= wait.from_ns and _way(trace, event) in ways]
        older = [event for event in older if event not in joined]
        waits.append(replace(wait, events=(*joined, *wait.events)))
    return waits


def _way(trace: Trace, event: int) -> Hashable:
    row = int(trace.comm[event])
    kind = int(trace.collectives.kind[row])
    return (int(trace.collectives.group[row]), kind if kind in _PAIRWISE else -1)
