"""The host call that launches device work is part of whatever that work is part of."""

from __future__ import annotations

import numpy as np

from replay.graph.types import DEVICE_OPS, Rule
from replay.program.structure._evidence import Evidence, Finding

ORDER = 85


def find(evidence: Evidence) -> Finding:
    """State of every launch, from the first device op it launched."""
    graph, finding = evidence.graph, evidence.nothing()
    rows = np.flatnonzero(graph.edges.rule == Rule.LAUNCH)[::-1]
    target, source = graph.edges.target[rows], graph.edges.source[rows]
    launched = np.isin(graph.kind[target], DEVICE_OPS)
    finding.states[source[launched]] = evidence.states[target[launched]]
    return finding
