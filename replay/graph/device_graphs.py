"""CUDA/ACL graphs (R4): one host op and a device DAG with its device gaps.

Profilers record some nodes of a graph and not others. Time between the release of a graph launch and its first recorded
node is then the graph's own, unrecorded work. It is taken as the lower envelope over the steps in which the same launch
(by ordinal) recurs, so that waiting which happens only sometimes is not copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from replay.core.units import NS_PER_US
from replay.graph.calls import CallKind
from replay.graph.edge_list import EdgeList
from replay.graph.launch_join import Launches
from replay.graph.streams import free_since_ns
from replay.graph.types import Rule
from replay.trace import Trace

_WORTH_NS = 20 * NS_PER_US  # shorter leads are launch latency


def unrecorded_leads(trace: Trace, launches: Launches, windows: list[tuple[int, int, int]]) -> dict[int, int]:
    """First recorded device event of a graph launch → unrecorded work before it, ns; launches without any are absent.

    ``windows`` holds (rank, begin ns, end ns) of every step.
    """
    first = _first_events(trace, launches)
    measured = _leads(trace, first)
    by_ordinal: dict[tuple[int, int], list[int]] = defaultdict(list)
    calls = np.array(sorted(first, key=lambda c: int(trace.start_ns[c])), np.int64)
    for rank, begin, end in windows:
        start = trace.start_ns[calls]
        inside = calls[(trace.rank[calls] == rank) & (start >= begin) & (start < end)]
        for ordinal, call in enumerate(inside):
            by_ordinal[rank, ordinal].append(int(call))
    leads: dict[int, int] = {}
    for same in by_ordinal.values():
        shortest = min(measured[call] for call in same)
        if shortest > _WORTH_NS:
            leads |= {first[call]: shortest for call in same}
    return leads


def _first_events(trace: Trace, launches: Launches) -> dict[int, int]:
    """Graph launch call → its first device event."""
    first: dict[int, int] = {}
    device = np.flatnonzero(trace.is_device & (launches.call >= 0))
    for event in device[launches.call_kind[launches.call[device]] == CallKind.GRAPH_LAUNCH]:
        call = int(launches.call[event])
        if call not in first or trace.start_ns[event] < trace.start_ns[first[call]]:
            first[call] = int(event)
    return first


def _leads(trace: Trace, first: dict[int, int]) -> dict[int, int]:
    """Graph launch call → time from its stream's previous work, or the launch if later, to its first recorded node."""
    calls, events = (np.array(list(column), np.int64) for column in (first.keys(), first.values()))
    device = np.flatnonzero(trace.is_device)
    device = device[np.isin(trace.lane[device], trace.lane[events])]
    free = free_since_ns(trace, device)[np.searchsorted(device, events)]
    lead = trace.start_ns[events] - np.maximum(free, trace.start_ns[calls])
    return dict(zip(calls.tolist(), np.maximum(lead, 0).tolist(), strict=True))


def unrecorded_ns(edges: EdgeList, leads: Iterable[int]) -> int:
    """Device time of the step inside graph launches that no recorded node covers: leads, and gaps between nodes."""
    gaps = edges.lag_ns[(edges.rule == Rule.GRAPH) & ~edges.from_start]
    return int(gaps[gaps > _WORTH_NS].sum()) + sum(leads)
