"""Steps without a backward pass: everything the framework runs is forward, and every call of the model is a pass."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence, Finding
from replay.program.structure.op_names import role_of
from replay.program.types import Phase, Role
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
    lane = evidence.places.lane
    issued = np.isin(lane, trace.lane[operators]) | ((lane >= 0) & on_device[lane])
    ops = np.isin(evidence.graph.rank, ranks) & issued
    if not ops.any():
        return finding
    finding.states[ops, PHASE] = Phase.FORWARD
    roots = _root_calls(evidence)
    finding.passes[ops] = _numbered(evidence, roots if len(roots) else _embeddings(evidence))[ops]
    return Finding(finding.states, finding.passes, ("no backward pass and no optimizer: all work is forward",))


def _root_calls(evidence: Evidence) -> Int64:
    """Events of the calls of models, by time."""
    module = evidence.trace.kind[evidence.calls.event] == EventKind.MODULE
    roots = evidence.calls.outermost(module) == np.arange(len(evidence.calls))
    return np.asarray(evidence.calls.event[roots])


def _embeddings(evidence: Evidence) -> Int64:
    """Events of embeddings that begin a pass: all passes (prefill and decode) hold equally many attentions."""
    trace, calls = evidence.trace, evidence.calls
    role = np.array([role_of(name) for name in trace.names], np.int64)[calls.names(trace)]
    outer = calls.outermost(np.isin(role, (Role.EMBEDDING, Role.ATTENTION))) == np.arange(len(calls))
    marks, begins = np.flatnonzero(outer), []
    attentions = np.cumsum(role[marks] == Role.ATTENTION)
    seen = [-1]
    for mark, before in zip(marks.tolist(), attentions.tolist(), strict=True):
        if role[mark] == Role.EMBEDDING and before != seen[-1]:
            seen.append(before)
            begins.append(int(calls.event[mark]))
    whole = np.diff([*seen[1:], int(attentions[-1]) if len(attentions) else 0])
    return np.array(begins if len(set(whole.tolist())) == 1 else [], np.int64)


def _numbered(evidence: Evidence, begins: Int64) -> Int64:
    """Pass of every op on the threads of these events: the last to begin before it, else the first."""
    trace, places = evidence.trace, evidence.places
    passes = np.full(len(evidence.graph), UNKNOWN_PASS, np.int64)
    for lane in np.unique(trace.lane[begins]).tolist():
        window = places.window_ns(trace.lanes[lane].rank)
        own = np.sort(begins[trace.lane[begins] == lane])  # events are in order of begin
        start = trace.start_ns[own]
        start = start[(trace.end_ns[own] > window[0]) & (start <= window[1])] if window else start[:0]
        here = np.flatnonzero(places.lane == lane)
        if len(start):
            passes[here] = np.maximum(np.searchsorted(start, places.time_ns[here], side="right") - 1, 0)
    return passes
