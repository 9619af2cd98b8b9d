"""Steps without a backward pass: everything the framework runs is forward, and every call of the model is a pass."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Int64
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence, Finding
from replay.program.types import Phase
from replay.trace import EventKind

ORDER = 41  # phases that names of kernels tell come first: they may be all that tells of a backward pass
PHASE = FIELDS.index("phase")


def find(evidence: Evidence) -> Finding:
    """FORWARD for the ranks that run operators of a framework, and no phase but forward, as far as anything says."""
    finding = evidence.nothing()
    trace, calls = evidence.trace, evidence.calls
    framework = np.array([name.startswith("aten::") for name in trace.names], np.bool_)
    operators = calls.event[framework[calls.names(trace)]]
    training = ~np.isin(evidence.said("phase"), (Phase.NONE, Phase.FORWARD))
    ranks = np.setdiff1d(trace.rank[operators], evidence.graph.rank[training])
    on_device = np.array([lane.is_device for lane in trace.lanes], np.bool_)  # their launch was not recorded
    issued = np.isin(evidence.places.lane, trace.lane[operators]) | on_device[evidence.places.lane]
    ops = np.isin(evidence.graph.rank, ranks) & issued
    if not ops.any():
        return finding
    finding.states[ops, PHASE] = Phase.FORWARD
    finding.passes[ops] = _root_calls(evidence)[ops]
    return Finding(finding.states, finding.passes, ("no backward pass and no optimizer: all work is forward",))


def _root_calls(evidence: Evidence) -> Int64:
    """How many calls of a model its thread began before each op, less one: what precedes a call prepares it."""
    trace, calls, places = evidence.trace, evidence.calls, evidence.places
    module = trace.kind[calls.event] == EventKind.MODULE
    roots = np.flatnonzero(calls.outermost(module) == np.arange(len(calls)))
    passes = np.full(len(evidence.graph), UNKNOWN_PASS, np.int64)
    for lane in np.unique(trace.lane[calls.event[roots]]).tolist():
        events = calls.event[roots][trace.lane[calls.event[roots]] == lane]
        window = evidence.places.window_ns(trace.lanes[lane].rank)
        inside = events[_overlap(trace.start_ns[events], trace.end_ns[events], window)] if window else events[:0]
        here = np.flatnonzero(places.lane == lane)
        if len(inside):
            begun = np.searchsorted(trace.end_ns[inside], places.time_ns[here], side="right")
            passes[here] = np.minimum(begun, len(inside) - 1)
    return passes


def _overlap(start: Int64, end: Int64, window: tuple[int, int]) -> Bool:
    return (end > window[0]) & (start <= window[1])
