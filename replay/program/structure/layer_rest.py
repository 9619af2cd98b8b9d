"""What layers do behind their attention, where no name of a module tells: a feed-forward block, or experts.

Layers and attention are known (from calls of modules mostly), a feed-forward part is not: modules may be called what
one likes, ``Sequential`` for one. What a pass runs there behind attention is read as in layers without modules.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Int64, groups_of
from replay.graph.types import OpKind
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence, Finding
from replay.program.structure._layer_roles import LayerWork, roles
from replay.program.structure._pass_bodies import facts_of
from replay.program.structure._sequence import sequences
from replay.program.template_ids import row_ids
from replay.program.types import Phase, Role

ORDER = 65
ROLE = FIELDS.index("role")
FEED_FORWARD = (Role.MLP, Role.ROUTER, Role.DISPATCH, Role.EXPERTS, Role.SHARED_EXPERT, Role.COMBINE)


def find(evidence: Evidence) -> Finding:
    """Roles of forward work behind the attention of layers without any feed-forward role."""
    finding, layer, role = evidence.nothing(), evidence.said("layer"), evidence.said("role")
    attended = np.setdiff1d(layer[role == Role.ATTENTION], layer[np.isin(role, FEED_FORWARD)])
    wanted = np.isin(layer, attended[attended >= 0]) & (evidence.said("phase") == Phase.FORWARD)
    wanted &= (evidence.passes != UNKNOWN_PASS) & np.isin(evidence.graph.kind, (OpKind.COMPUTE, OpKind.ARRIVAL))
    if not wanted.any():
        return finding
    facts, told = facts_of(evidence), 0
    for sequence in sequences(evidence):
        op = sequence.op[wanted[sequence.op] & ~sequence.transfer]
        for rows in groups_of(row_ids(evidence.passes[op], layer[op])):
            told += _label(op[rows], facts, role == Role.ATTENTION, finding)
    sentence = f"work behind attention in layers whose parts have no telling names: {told} passes through a layer"
    return Finding(finding.states, finding.passes, (sentence,) if told else ())


def _label(op: Int64, facts: LayerWork, attention: Bool, finding: Finding) -> bool:
    """One pass through a layer; without a GEMM behind its attention there is no feed-forward part."""
    behind = np.arange(len(op)) > np.flatnonzero(attention[op]).max(initial=-1)
    if not attention[op].any() or not (behind & (facts.gemm | facts.grouped)[op]).any():
        return False
    masks = (facts.gemm, facts.grouped, facts.exchange, facts.routing, np.zeros_like(facts.loose))
    found = roles(LayerWork(attention[op], *(mask[op] for mask in masks)), projections=0)
    finding.states[op[behind], ROLE] = found[behind]
    return True
