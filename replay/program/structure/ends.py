"""What precedes the first layer of the model in a pass embeds, and what follows its last layer is the head."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Int64
from replay.program.groups import coordinates
from replay.program.open_ranges import FIELDS, UNSAID
from replay.program.structure._evidence import Evidence, Finding
from replay.program.template_ids import row_ids
from replay.program.types import Phase, Role

ORDER = 70
PHASE, ROLE, LAYER = (FIELDS.index(field) for field in ("phase", "role", "layer"))


def find(evidence: Evidence) -> Finding:
    """EMBEDDING or HEAD for forward ops without a layer and role at the ends of a pass that has layers."""
    finding = evidence.nothing()
    time = evidence.places.time_ns
    forward = (evidence.said("phase") == Phase.FORWARD) & (time >= 0)
    said = row_ids(evidence.graph.rank, evidence.said("microbatch"), evidence.said("chunk"), evidence.passes)
    layered = forward & (evidence.said("layer") >= 0)
    first, last = _extent(said, time, layered)
    rest = forward & ~layered & (evidence.said("role") == UNSAID[ROLE]) & (last[said] >= 0)
    first_chunk, last_chunk = _end_chunks(evidence)
    finding.states[rest & first_chunk & (time < first[said]), ROLE] = Role.EMBEDDING
    finding.states[rest & last_chunk & (time > last[said]), ROLE] = Role.HEAD
    return finding


def _end_chunks(evidence: Evidence) -> tuple[Bool, Bool]:
    """Ops in the first and in the last chunk of the model."""
    layout, rank = evidence.layout, evidence.graph.rank
    chunk = np.maximum(evidence.said("chunk"), 0)
    stages = {r: coordinates(layout, r)["pp"] for r in np.unique(rank).tolist()}
    stage = np.array([stages[r] for r in rank.tolist()], np.int64)
    return (stage == 0) & (chunk == 0), (stage == layout.pp - 1) & (chunk == layout.vpp - 1)


def _extent(key: Int64, time: Int64, wanted: Bool) -> tuple[Int64, Int64]:
    """First and last time of the wanted rows of every key; (max, -1) where it has none."""
    first = np.full(key.max(initial=-1) + 1, np.iinfo(np.int64).max)
    last = np.full(len(first), -1, np.int64)
    np.minimum.at(first, key[wanted], time[wanted])
    np.maximum.at(last, key[wanted], time[wanted])
    return first, last
