"""Layers from repetition: inside a pass, layers are what happens again and again.

Asked only for ranks whose layers no stronger evidence knows. Forward and backward passes are cut each for themselves
and must find equally many layers in a chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from replay.core.columns import Int64
from replay.core.errors import LayoutError
from replay.core.units import percent
from replay.graph.types import OpKind
from replay.program.keys import PASS_PHASES
from replay.program.open_ranges import FIELDS
from replay.program.structure._bodies import AFTER, BEFORE
from replay.program.structure._evidence import Evidence, Finding
from replay.program.structure._pass_bodies import Pass, cut, passes_of
from replay.program.types import Phase, Role
from replay.trace import MISSING

ORDER = 60
LAYER, ROLE = FIELDS.index("layer"), FIELDS.index("role")


def find(evidence: Evidence) -> Finding:
    """Layer of ops in passes, and roles of embedding and head."""
    finding = evidence.nothing()
    passes = passes_of(evidence)
    by_phase = {phase: [one for one in passes if one.phase == phase] for phase in PASS_PHASES}
    cuts = {
        phase: cut(evidence, own, () if phase is Phase.FORWARD else by_phase[Phase.FORWARD])
        for phase, own in by_phase.items()
    }
    forward = cuts[Phase.FORWARD] or cuts[Phase.BACKWARD]
    if forward is None:
        return finding
    counts = forward.counts()
    _check(evidence, counts, forward.how)
    agreed = [one for one in cuts.values() if one is not None and one.counts().items() <= counts.items()]
    first = {chunk: _first(evidence, counts, chunk) for chunk in counts}
    for one in agreed:
        for item, layer, role in zip(one.passes, one.layers, one.roles, strict=True):
            if layer.max(initial=-1) + 1 != counts[item.chunk]:
                continue  # cut otherwise than the chunk's other passes: left to weaker evidence
            _write(evidence, finding, item, np.where(layer >= 0, layer + first[item.chunk], layer), role)
    _spread_to_transfers(evidence, finding)
    return Finding(finding.states, finding.passes, _sentences(evidence, finding, counts, forward.how))


def _first(evidence: Evidence, counts: Mapping[int, int], chunk: int) -> int:
    """First layer of a chunk of the model: after the layers of all chunks before it.

    Chunks that no rank shows share equally what is left of the model's layers; where those are not known, they are
    taken to be like the seen ones.
    """
    if chunk == MISSING:
        return 0
    seen, chunks = sum(counts.values()), evidence.layout.pp * evidence.layout.vpp
    usual = Counter(counts.values()).most_common(1)[0][0]
    left = (evidence.model.layers or seen + usual * (chunks - len(counts))) - seen
    share = left // (chunks - len(counts)) if chunks > len(counts) else 0
    return sum(counts.get(earlier, share) for earlier in range(chunk))


def _check(evidence: Evidence, counts: Mapping[int, int], how: str) -> None:
    """The layers of all chunks are the model's."""
    stated, chunks = evidence.model.layers, evidence.layout.pp * evidence.layout.vpp
    found = sum(counts.values())
    if stated is None or MISSING in counts or stated == found or (len(counts) < chunks and found < stated):
        return
    raise LayoutError(
        f"the model has {stated} layers, but {found} were found in {len(counts)} of {chunks} chunks (by {how}); "
        f"correct --layers or --model, or say with --from how the layers are divided"
    )


def _write(evidence: Evidence, finding: Finding, item: Pass, layer: Int64, role: Int64) -> None:
    """Layers and roles of one pass's ops; what lies outside of layers at the ends of the model is embedding or head."""
    states = finding.states
    states[item.op, LAYER] = np.where(layer >= 0, layer, MISSING)
    states[item.op, ROLE] = role
    last = evidence.layout.pp * evidence.layout.vpp - 1
    if item.chunk == 0:
        states[item.op[layer == BEFORE], ROLE] = Role.EMBEDDING
    if item.chunk == last:
        states[item.op[layer == AFTER], ROLE] = Role.HEAD


def _spread_to_transfers(evidence: Evidence, finding: Finding) -> None:
    """A collective's transfer is where its arrival is."""
    graph, states = evidence.graph, finding.states
    arrival = np.flatnonzero(graph.kind == OpKind.ARRIVAL)
    of_comm = np.full(len(graph.comms), -1, np.int64)
    of_comm[graph.comm[arrival]] = arrival
    transfer = np.flatnonzero(graph.kind == OpKind.TRANSFER)
    transfer = transfer[of_comm[graph.comm[transfer]] >= 0]
    states[transfer] = states[of_comm[graph.comm[transfer]]]


def _sentences(evidence: Evidence, finding: Finding, counts: Mapping[int, int], how: str) -> tuple[str, ...]:
    work = np.isin(evidence.graph.kind, (OpKind.COMPUTE, OpKind.TRANSFER))
    weight = np.where(work, evidence.graph.duration_ns, 0).astype(np.float64)
    inside = (evidence.passes >= 0) & np.isin(evidence.said("phase"), PASS_PHASES)
    share = percent(float(weight[finding.states[:, LAYER] >= 0].sum()), float(weight[inside].sum()))
    sizes = Counter(counts.values())
    words = ", ".join(f"{size} in {n} {'chunk' if n == 1 else 'chunks'}" for size, n in sizes.items())
    return (f"layers by {how}: {words}; {share:.0f} % of the time of passes lies in them",)
