"""Phases from the names of kernels where the host says nothing.

Kernels of the backward pass are called so (``flash_bwd_…``, ``layer_norm_grad_input_kernel``, ``…softmax_backward``,
``…dgrad``, ``…wgrad``); a kernel whose name is that of a backward one without the word is forward. What lies between is
settled by :mod:`._directions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import percent
from replay.graph.types import OpKind
from replay.program.open_ranges import FIELDS
from replay.program.structure._directions import BACKWARD, FORWARD, UNKNOWN, UPDATE, Work, directions
from replay.program.structure._evidence import Evidence, Finding
from replay.program.structure._recompute import alternates, without_recomputation
from replay.program.structure._sequence import Sequence, sequences, symbols
from replay.program.types import Phase

ORDER = 40
PHASE = FIELDS.index("phase")

BACKWARD_WORD = re.compile(
    r"_?(?:bwd|backward|bprop|dgrad|wgrad|grad_(?:input|weight|bias)|GradInput|(?<=bn)_bw(?=_))"
    r"|backprop|(?-i:(?<=[a-z\d])Grad(?:V\d+|D)?(?=_|AiCore|With|\d*$))",
    re.I,
)
FORWARD_WORD = re.compile(r"_?(?:fwd|forward|fprop|(?<=bn)_fw(?=_))(?!data|filter|output)", re.I)
"""A kernel's direction in its name (PyTorch, cuDNN, Transformer Engine, FlashAttention, Apex; CANN: ``…Grad``,
``…Backprop…``). Winograd convolutions have kernels ``winogradForwardData`` in both directions."""

OPTIMIZER_WORD = re.compile(
    r"adam|lamb(?!da)|\bsgd|multi_tensor|multitensor|foreach|l2_?norm|clip_grad|adagrad|lion_|muon|newton_schulz"
    r"|(?-i:(?<=Apply)(?:SGD|[A-Z]\w*Momentum|Momentum|R[Mm][Ss]Prop))",
    re.I,
)
"""Kernels of optimizers and gradient norms (torch ``_foreach``, Apex ``multi_tensor_*``, CANN ``Apply…``)."""

_DIRECTION = {Phase.FORWARD: FORWARD, Phase.BACKWARD: BACKWARD, Phase.WEIGHT: BACKWARD}
_PHASE = {FORWARD: Phase.FORWARD, BACKWARD: Phase.BACKWARD, UPDATE: Phase.OPTIMIZER}


def find(evidence: Evidence) -> Finding:
    """Phase of kernels to which no stronger evidence gives one."""
    unsaid = evidence.said("phase") == Phase.NONE
    finding = evidence.nothing()
    names = Names.of(evidence.graph.names)
    symbol = symbols(evidence)
    for sequence in sequences(evidence):
        if unsaid[sequence.op[sequence.compute]].any():
            _label(evidence, names, symbol, sequence, finding)
    weight = np.where(evidence.graph.kind == OpKind.COMPUTE, evidence.graph.duration_ns, 0)
    told = unsaid & np.isin(finding.states[:, PHASE], (Phase.FORWARD, Phase.BACKWARD))
    share = percent(float(weight[told].sum()), float(weight.sum()))
    sentence = f"kernel names: forward and backward told apart for {share:.0f} % of compute time"
    return Finding(finding.states, finding.passes, (sentence,) if told.any() else ())


@dataclass(frozen=True, slots=True)
class Names:
    """What the name of every op says: its direction, and whether it is an optimizer's."""

    direction: Int64
    optimizer: Bool

    @staticmethod
    def of(names: tuple[str, ...]) -> Names:
        """Reads each name once; a name that is a backward one without its word is forward."""
        backward = np.array([bool(BACKWARD_WORD.search(name)) for name in names], np.bool_)
        stems = {BACKWARD_WORD.sub("", name) for name, told in zip(names, backward, strict=True) if told}
        forward = [bool(FORWARD_WORD.search(name)) or name in stems for name in names]
        direction = np.where(backward, BACKWARD, np.where(np.array(forward, np.bool_), FORWARD, UNKNOWN))
        return Names(direction, np.array([bool(OPTIMIZER_WORD.search(name)) for name in names], np.bool_))


def _label(evidence: Evidence, names: Names, symbol: Int64, sequence: Sequence, finding: Finding) -> None:
    """Write the phases of one rank."""
    said = evidence.said("phase")
    op = sequence.op[sequence.compute]
    told = np.array([_DIRECTION.get(Phase(phase), UNKNOWN) for phase in said[op].tolist()], np.int64)
    unsaid = said[op] == Phase.NONE
    update = np.where(unsaid, names.optimizer[evidence.graph.name[op]], said[op] == Phase.OPTIMIZER)
    named = np.where(update, UNKNOWN, names.direction[evidence.graph.name[op]])
    work = Work(symbol[op], np.where(unsaid, named, told), update, sequence.cuts()[sequence.compute])
    direction = without_recomputation(work, directions(work))
    if not alternates(work, direction):
        direction = work.anchor
    finding.states[op, PHASE] = [_PHASE.get(way, Phase.NONE) for way in direction.tolist()]
