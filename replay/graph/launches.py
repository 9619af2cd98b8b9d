"""Launch edges: device work starts no earlier than its launch call plus the launch latency.

The latency is one number per trace and kind of launch, learned over the whole trace from work whose stream was idle
when it was launched. A device that is always behind shows no such work; then the smallest delay seen is an upper bound,
and what is known of launch latencies in general (a few microseconds on every accelerator) caps it.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_US
from replay.graph.calls import CallKind
from replay.graph.edge_list import EdgeList
from replay.graph.lags import typical_delay
from replay.graph.number import Numbered, RankParts
from replay.graph.selection import Launches
from replay.graph.types import Rule
from replay.trace import Trace

_NEVER_IDLE_NS = 10 * NS_PER_US  # assumed latency where every launch met a busy stream


def launch_latency_ns(trace: Trace, launches: Launches, *, graphs: bool) -> int:
    """Time from the start of a launch call to the start of its work on an idle stream, ns; 0 without any launch."""
    device = np.flatnonzero(trace.is_device & (launches.call >= 0))
    device = device[np.lexsort((trace.start_ns[device], trace.lane[device]))]
    call = launches.call[device]
    delay = trace.start_ns[device] - trace.start_ns[call]
    wanted = (launches.call_kind[call] == CallKind.GRAPH_LAUNCH) == graphs
    wanted &= (delay >= 0) & np.append(True, call[1:] != call[:-1])
    if not wanted.any():
        return 0
    samples = delay[wanted & _idle(trace, device, call)]
    if len(samples) >= 3:
        return typical_delay(samples)
    return min(int(delay[wanted].min()), _NEVER_IDLE_NS)


def _idle(trace: Trace, device: Int64, call: Int64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the stream had finished everything before when the launch call began (device sorted by lane, start)."""
    idle = np.ones(len(device), np.bool_)
    same = trace.lane[device[1:]] == trace.lane[device[:-1]]
    idle[1:] = ~same | (trace.end_ns[device[:-1]] <= trace.start_ns[call[1:]])
    return idle


def launch_edges(trace: Trace, launches: Launches, part: RankParts, ops: Numbered) -> EdgeList:
    """From the start of each launch call to its work; of a graph launch only to the node that starts first."""
    rows: list[tuple[int, int]] = []
    lags: list[int] = []
    latency = {graphs: launch_latency_ns(trace, launches, graphs=graphs) for graphs in (False, True)}
    launched: set[int] = set()
    for event, call in zip(part.step.device, launches.call[part.step.device], strict=True):
        graph = call >= 0 and launches.call_kind[call] == CallKind.GRAPH_LAUNCH
        if int(call) not in ops.call_op or (graph and int(call) in launched):
            continue
        launched.add(int(call))
        rows.append((ops.call_op[int(call)], ops.first[int(event)]))
        lags.append(latency[bool(graph)])
    return EdgeList.of(
        Rule.LAUNCH,
        [row[0] for row in rows],
        [row[1] for row in rows],
        lag_ns=np.array(lags, np.int64),
        from_start=True,
    )
