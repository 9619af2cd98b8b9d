"""Which pass each pipeline send and receive serves.

A rank sends the outputs of its passes, and receives their inputs, in the order in which it runs the passes: the k-th
send is that of the k-th pass that has an output for another rank. Where the numbers of transfers and of such passes
differ (several transfers fused in one kernel), nothing is said.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.types import OpKind
from replay.program.comm_ops import comm_kind
from replay.program.exchange import Stage
from replay.program.groups import coordinates
from replay.program.keys import PASS_PHASES, BlockKey, Part
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence, Finding
from replay.program.structure._sequence import Sequence, sequences
from replay.program.types import Phase, Role
from replay.trace import MISSING, CollectiveKind

ORDER = 55
STATED = tuple(FIELDS.index(name) for name in ("phase", "role", "microbatch", "chunk"))


def find(evidence: Evidence) -> Finding:
    """Phase, micro-batch and chunk of every pipeline transfer of ranks whose passes are numbered."""
    finding = evidence.nothing()
    told = 0
    for sequence in sequences(evidence):
        if sequence.transfer.any():
            told += _label(evidence, sequence, finding)
    sentence = f"{told} pipeline transfers counted off against the passes that need them"
    return Finding(finding.states, finding.passes, (sentence,) if told else ())


def _label(evidence: Evidence, sequence: Sequence, finding: Finding) -> int:
    layout, kind = evidence.layout, comm_kind(evidence.graph)[sequence.op]
    index = coordinates(layout, sequence.rank)["pp"]
    stage = Stage(index, layout.pp, layout.vpp)
    passes = _passes(evidence, sequence, index)
    told = 0
    for direction, needs in ((CollectiveKind.SEND, stage.output_of), (CollectiveKind.RECV, stage.input_of)):
        ops = sequence.op[sequence.transfer & (kind == direction)]
        begun = ops[evidence.graph.kind[ops] != OpKind.TRANSFER]
        served = [key for key in passes if needs(key) is not None]
        if len(served) != len(begun) or not served:
            continue
        rows = np.array([(key.phase, Role.P2P, key.microbatch, key.chunk // layout.pp) for key in served])
        order = {int(comm): k for k, comm in enumerate(evidence.graph.comm[begun])}
        finding.states[np.ix_(ops, STATED)] = rows[[order[int(comm)] for comm in evidence.graph.comm[ops]]]
        told += len(begun)
    return told


def _passes(evidence: Evidence, sequence: Sequence, stage: int) -> list[BlockKey]:
    """Passes of a rank in the order in which it begins them, chunks counted over the whole model."""
    phase, microbatch, chunk = (evidence.said(name)[sequence.op] for name in ("phase", "microbatch", "chunk"))
    inside = (evidence.passes[sequence.op] != UNKNOWN_PASS) & np.isin(phase, PASS_PHASES)
    inside &= (microbatch != MISSING) & (chunk != MISSING) & ~sequence.transfer
    rows: Int64 = np.stack([phase, microbatch, chunk], axis=1)[inside]
    found = dict.fromkeys(map(tuple, rows.tolist()))
    return [BlockKey(Part.BEGIN, Phase(p), m, c * evidence.layout.pp + stage) for p, m, c in found]
