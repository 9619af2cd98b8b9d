"""Collectives and copies inside passes, and what follows the last one: gradient sums, gradient norm, optimizer.

Work inside a pass belongs to it. Of the collectives there, those that sum over replicas sum gradients: over a
data-parallel group, or, where groups have no names, over one that no forward pass sums over. After the last pass come
the sums that are left; the rest is the optimizer's (gradient norm, update).
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import percent
from replay.graph.parallel_kind import ParallelKind
from replay.graph.types import DEVICE_OPS, Graph
from replay.program.comm_ops import comm_kind
from replay.program.keys import PASS_PHASES
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import Evidence, Finding
from replay.program.structure._sequence import Sequence, group_kinds, sequences
from replay.program.structure.kernel_phases import OPTIMIZER_WORD
from replay.program.types import Phase, Role
from replay.trace import MISSING, CollectiveKind

ORDER = 42
PHASE, ROLE, CHUNK = (FIELDS.index(name) for name in ("phase", "role", "chunk"))

SUMS = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE)
_LARGE = 4096  # bytes; what a gradient norm or a loss sums is a few numbers


def find(evidence: Evidence) -> Finding:
    """Phase of device work beside and after passes; role, and after them chunk, of gradient sums."""
    finding = evidence.nothing()
    sums = gradient_sums(evidence)
    updates = np.array([bool(OPTIMIZER_WORD.search(name)) for name in evidence.graph.names], np.bool_)
    for sequence in sequences(evidence):
        _label(evidence, sequence, (sums, updates[evidence.graph.name]), finding)
    return Finding(finding.states, finding.passes, _sentences(evidence.graph, finding.states))


def gradient_sums(evidence: Evidence) -> Bool:
    """Collectives that sum gradients over replicas, by their group or, where it has no name, by where they run."""
    graph, phase = evidence.graph, evidence.said("phase")
    kinds, groups = comm_kind(graph), group_kinds(graph)
    summing = np.isin(kinds, SUMS)
    large = np.zeros(len(graph), np.bool_)
    member = graph.comm >= 0
    nbytes = graph.comms.nbytes[graph.comm[member]]
    large[member] = (nbytes < 0) | (nbytes > _LARGE)
    unnamed = summing & (groups < 0) & large
    forward = np.zeros(len(graph), np.bool_)
    for sequence in sequences(evidence):
        forward[sequence.op] = _inside(sequence, phase[sequence.op]) == Phase.FORWARD
    return np.asarray(summing & (groups == ParallelKind.DP) | (unnamed & (not (unnamed & forward).any())))


def _inside(sequence: Sequence, phase: Int64) -> Int64:
    """Phase of the pass that each op of a sequence lies in, NONE before, between and after passes."""
    index = np.arange(len(sequence.op))
    told = sequence.compute & np.isin(phase, PASS_PHASES)
    if not told.any():
        return np.full(len(index), Phase.NONE, np.int64)
    before = np.maximum.accumulate(np.where(told, index, -1))
    after = np.minimum.accumulate(np.where(told, index, len(index))[::-1])[::-1]
    both = (before >= 0) & (after < len(index))
    cut = sequence.cuts()
    found = np.full(len(index), Phase.NONE, np.int64)
    last, following = phase[before[both]], phase[after[both]]
    here = cut[np.flatnonzero(both)]
    near = np.where(cut[before[both]] == here, last, np.where(cut[after[both]] == here, following, Phase.NONE))
    found[both] = np.where(last == following, last, near)
    return found


def _label(evidence: Evidence, sequence: Sequence, known: tuple[Bool, Bool], finding: Finding) -> None:
    """Write what is known of the ops of one rank; ``known`` marks gradient sums and updates by name."""
    op, phase = sequence.op, evidence.said("phase")[sequence.op]
    sums, updates = (mask[op] for mask in known)
    passing = np.flatnonzero(sequence.compute & np.isin(phase, PASS_PHASES))
    if not len(passing):
        return
    states = finding.states
    inside = np.where(sequence.transfer, Phase.NONE, _inside(sequence, phase))
    states[op, PHASE] = inside
    states[op[sums], ROLE] = Role.GRAD_SYNC
    after = (np.arange(len(op)) > passing[-1]) & ~sequence.transfer
    gathers = comm_kind(evidence.graph)[op] == CollectiveKind.ALL_GATHER
    synced = after & (sums | gathers)
    states[op[synced], PHASE] = Phase.SYNC
    states[op[synced], ROLE] = Role.GRAD_SYNC
    states[op[synced & sums], CHUNK] = _chunks(evidence, op[synced & sums])
    if synced.any() or (after & updates).any():
        rest = op[after & ~synced]
        states[rest, PHASE], states[rest, ROLE] = Phase.OPTIMIZER, Role.OPTIMIZER


def _chunks(evidence: Evidence, sums: Int64) -> Int64:
    """Chunk of each gradient sum after the passes: chunks come one after the other, each with the same groups."""
    chunks = evidence.layout.vpp
    same = np.stack([evidence.graph.kind[sums], comm_kind(evidence.graph)[sums], group_kinds(evidence.graph)[sums]])
    length = len(sums) // chunks
    if length * chunks != len(sums) or (same[:, length:] != same[:, : len(sums) - length]).any():
        return np.full(len(sums), MISSING, np.int64)
    return np.arange(len(sums)) // max(length, 1)


def _sentences(graph: Graph, states: Int64) -> tuple[str, ...]:
    weight = np.where(np.isin(graph.kind, DEVICE_OPS), graph.duration_ns, 0).astype(np.float64)
    update = percent(float(weight[states[:, PHASE] == Phase.OPTIMIZER].sum()), float(weight.sum()))
    synced = percent(float(weight[states[:, ROLE] == Role.GRAD_SYNC].sum()), float(weight.sum()))
    if not update and not synced:
        return ()
    words = f"gradient sums {synced:.1f} %, gradient norm and optimizer {update:.1f} % of device time"
    return (f"collectives by their groups, and what follows the last pass: {words}",)
