"""Backward ops from the forward operators whose gradient they compute: equal layer, role, micro-batch and chunk.

A recomputed operator has a number of its own and runs inside the backward node that needed it, so it belongs to that
node's layer; its role is its own affair.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import percent
from replay.program.open_ranges import FIELDS, UNSAID
from replay.program.structure._autograd import Autograd
from replay.program.structure._evidence import Evidence, Finding
from replay.program.types import Phase
from replay.trace import EventKind

ORDER = 80
PHASE, ROLE, EVENT = (FIELDS.index(field) for field in ("phase", "role", "event"))


def find(evidence: Evidence) -> Finding:
    """States of ops inside backward nodes, from the ops that the nodes' makers issued."""
    engine, finding = evidence.engine, evidence.nothing()
    row_of_call = np.full(len(evidence.calls), -1, np.int64)
    row_of_call[engine.nodes] = np.arange(len(engine))
    node = np.where(evidence.calls.of_op >= 0, engine.node[evidence.calls.of_op], -1) if len(engine) else finding.passes
    ops = np.flatnonzero(node >= 0)
    maker = engine.made_by[row_of_call[node[ops]]]
    ops, maker = ops[maker >= 0], maker[maker >= 0]
    if not len(ops):
        return finding
    source = _forward_op(evidence, maker)
    ops, source = ops[source >= 0], source[source >= 0]
    states = evidence.states[source].copy()
    states[:, EVENT] = UNSAID[EVENT]
    states[:, PHASE] = Phase.BACKWARD
    states[_recomputed(evidence, engine)[ops], ROLE] = UNSAID[ROLE]
    finding.states[ops] = states
    linked = percent(len(ops), (node >= 0).sum())
    sentence = (
        f"autograd: {linked:.0f} % of the ops in backward nodes take their place from the forward op of equal number"
    )
    return Finding(finding.states, finding.passes, (sentence,))


def _forward_op(evidence: Evidence, maker: Int64) -> Int64:
    """The first forward op that each call issued, or, of calls that issued none, the last before it; -1 for none."""
    trace, places = evidence.trace, evidence.places
    event = evidence.calls.event[maker]
    forward = np.flatnonzero((evidence.said("phase") == Phase.FORWARD) & (places.time_ns >= 0))
    forward = forward[np.lexsort((places.time_ns[forward], places.lane[forward]))]
    found = np.full(len(maker), -1, np.int64)
    for lane in np.unique(trace.lane[event]).tolist():
        own, calls = forward[places.lane[forward] == lane], np.flatnonzero(trace.lane[event] == lane)
        if not len(own):
            continue
        times = places.time_ns[own]
        at = np.searchsorted(times, trace.start_ns[event[calls]], side="left")
        issued = (at < len(own)) & (times[np.minimum(at, len(own) - 1)] < trace.end_ns[event[calls]])
        at = np.where(issued, at, at - 1)
        found[calls] = np.where(at >= 0, own[np.maximum(at, 0)], -1)
    return found


def _recomputed(evidence: Evidence, engine: Autograd) -> Bool:
    """Ops inside a backward node that lie in an operator with a number of its own: it makes nodes, as forward does."""
    trace, calls = evidence.trace, evidence.calls
    sequence = trace.sequence[calls.event]
    own_number = (engine.node >= 0) & (sequence >= 0) & (trace.kind[calls.event] == EventKind.CPU_OP)
    own_number &= sequence != engine.number[engine.node]
    return np.asarray(calls.at_ops(calls.innermost(own_number)) >= 0)
