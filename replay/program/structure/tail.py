"""Collectives and copies inside passes, and what follows the last one: gradient sums, gradient norm, optimizer.

Work inside a pass belongs to it. Of the collectives there, those that sum over replicas sum gradients: over a
data-parallel group, or, where groups have no names, over one that no forward pass sums over. After the last pass come
the sums that are left; the rest is the optimizer's (gradient norm, update).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import percent
from replay.graph.parallel_kind import ParallelKind
from replay.graph.types import Graph
from replay.program.comm_ops import comm_kind
from replay.program.keys import PASS_PHASES
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import Evidence, Finding
from replay.program.structure._sequence import SUMS, Sequence, around, group_kinds, large_unnamed_sums, sequences
from replay.program.structure.kernel_phases import OPTIMIZER_WORD
from replay.program.types import Phase, Role
from replay.trace import MISSING, CollectiveKind

ORDER = 42
PHASE, ROLE, CHUNK = (FIELDS.index(name) for name in ("phase", "role", "chunk"))


def find(evidence: Evidence) -> Finding:
    """Phase of device work beside and after passes; role, and after them chunk, of gradient sums."""
    finding = evidence.nothing()
    sums = gradient_sums(evidence)
    updates = np.array([bool(OPTIMIZER_WORD.search(name)) for name in evidence.graph.names], np.bool_)
    parts = [Part.of(evidence, sequence, sums, updates[evidence.graph.name]) for sequence in sequences(evidence)]
    overlapped = any(part.overlapped for part in parts)
    for part in parts:
        _label(evidence, part, finding, overlapped=overlapped)
    return Finding(finding.states, finding.passes, _sentences(evidence.graph, finding.states))


@dataclass(frozen=True, slots=True)
class Part:
    """One rank's work in launch order: the phase of the pass each op is in, sums of gradients, and what is behind."""

    op: Int64
    inside: Int64  # Phase, NONE between and after passes
    sums: Bool
    updates: Bool  # named as an optimizer's
    after: Bool  # the last pass
    early: Bool  # before the last pipeline transfers

    @staticmethod
    def of(evidence: Evidence, sequence: Sequence, sums: Bool, updates: Bool) -> Part:
        """What is known of one rank."""
        op, cut = sequence.op, sequence.cuts()
        phase = evidence.said("phase")[op]
        inside = np.where(sequence.transfer | sequence.compute, Phase.NONE, _inside(sequence, phase))
        passing = np.flatnonzero(sequence.compute & np.isin(phase, PASS_PHASES))
        after = (np.arange(len(op)) > (passing[-1] if len(passing) else len(op))) & ~sequence.transfer
        return Part(op, inside, sums[op], updates[op], after, cut < cut[-1])

    @property
    def overlapped(self) -> bool:
        """Gradients are summed beside backward passes."""
        return bool((self.sums & ((self.inside == Phase.BACKWARD) | (self.after & self.early))).any())

    def late(self) -> Bool:
        """Sums right behind the last pass, before anything else is."""
        return np.asarray(self.after & ((np.cumsum(self.after & ~self.sums) == 0) | (self.sums & self.early)))


def gradient_sums(evidence: Evidence) -> Bool:
    """Collectives that sum gradients over replicas, by their group or, where it has no name, by where they run."""
    graph, phase = evidence.graph, evidence.said("phase")
    unnamed = large_unnamed_sums(graph)
    forward = np.zeros(len(graph), np.bool_)
    for sequence in sequences(evidence):
        forward[sequence.op] = _inside(sequence, phase[sequence.op]) == Phase.FORWARD
    named = np.isin(comm_kind(graph), SUMS) & (group_kinds(graph) == ParallelKind.DP)
    return np.asarray(named | (unnamed & (not (unnamed & forward).any())))


def _inside(sequence: Sequence, phase: Int64) -> Int64:
    """Phase of the pass that each op of a sequence lies in, NONE before, between and after passes."""
    index = np.arange(len(sequence.op))
    told = sequence.compute & np.isin(phase, PASS_PHASES)
    if not told.any():
        return np.full(len(index), Phase.NONE, np.int64)
    before, after = around(told)
    cut = sequence.cuts()
    earlier, later = np.maximum(before, 0), np.minimum(after, len(index) - 1)
    last = np.where(before >= 0, phase[earlier], Phase.NONE)
    following = np.where(after < len(index), phase[later], Phase.NONE)
    near = np.where((before >= 0) & (cut[earlier] == cut), last, Phase.NONE)
    begun = (near == Phase.NONE) & (cut[later] == cut) & ((before >= 0) | (cut > 0))
    near = np.where(begun, following, near)
    return np.where(after >= len(index), Phase.NONE, np.where(last == following, last, near))


def _label(evidence: Evidence, part: Part, finding: Finding, *, overlapped: bool) -> None:
    """Write what is known of the ops of one rank. Overlapped sums belong to the pass beside which they run."""
    op, states = part.op, finding.states
    phase = evidence.said("phase")[op]
    states[op, PHASE] = part.inside
    states[op[part.sums], ROLE] = Role.GRAD_SYNC
    after = part.after
    if overlapped:
        states[op[part.late()], PHASE] = Phase.BACKWARD
        after = after & ~part.late()
    gathers = comm_kind(evidence.graph)[op] == CollectiveKind.ALL_GATHER
    synced = after & (part.sums | gathers) & np.isin(phase, (Phase.NONE, Phase.SYNC))
    states[op[synced], PHASE], states[op[synced], ROLE] = Phase.SYNC, Role.GRAD_SYNC
    states[op[synced & part.sums], CHUNK] = _chunks(evidence, op[synced & part.sums])
    if synced.any() or (after & part.updates).any():
        rest = op[after & ~synced & np.isin(phase, (Phase.NONE, Phase.OPTIMIZER))]
        states[rest, PHASE], states[rest, ROLE] = Phase.OPTIMIZER, Role.OPTIMIZER


def _chunks(evidence: Evidence, sums: Int64) -> Int64:
    """Chunk of each gradient sum after the passes: chunks come one after the other, each sums once over a group."""
    graph = evidence.graph
    chunk, seen = 0, set[tuple[int, int]]()
    chunks = []
    for op in sums.tolist():
        group = (int(graph.kind[op]), int(graph.comms.group[graph.comm[op]]))
        if group in seen:
            chunk, seen = chunk + 1, set()
        seen.add(group)
        chunks.append(chunk)
    told = evidence.layout.vpp == 1 or chunk + 1 == evidence.layout.vpp
    return np.array([min(chunk, evidence.layout.vpp - 1) if told else MISSING for chunk in chunks], np.int64)


def _sentences(graph: Graph, states: Int64) -> tuple[str, ...]:
    weight = graph.device_time_ns
    update = percent(float(weight[states[:, PHASE] == Phase.OPTIMIZER].sum()), float(weight.sum()))
    synced = percent(float(weight[states[:, ROLE] == Role.GRAD_SYNC].sum()), float(weight.sum()))
    if not update and not synced:
        return ()
    words = f"gradient sums {synced:.1f} %, gradient norm and optimizer {update:.1f} % of device time"
    return (f"collectives by their groups, and what follows the last pass: {words}",)
