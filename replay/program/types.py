"""Labels: what each op of a graph is in terms of the training program.

Lifting gives every op its phase, micro-batch, chunk, layer and module role; synthesis lays templates of equally
labelled ops out again for another layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from replay.core.columns import Int8, Int32, check_equal_length, freeze
from replay.layout import Layout
from replay.model import ModelSpec


class Phase(IntEnum):
    """Phase of the training step."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2  # backward-input, or the whole backward where it is not split
    WEIGHT = 3  # backward-weight
    OPTIMIZER = 4
    SYNC = 5  # gradient and parameter synchronisation


class Role(IntEnum):
    """Module role of an op."""

    NONE = 0
    EMBEDDING = 1
    ATTENTION = 2
    MLP = 3  # dense feed-forward, or the experts (see the op's own name)
    ROUTER = 4
    DISPATCH = 5
    EXPERTS = 6  # grouped GEMMs and activation of the routed experts
    SHARED_EXPERT = 7
    COMBINE = 8
    NORM = 9
    HEAD = 10  # output projection and loss
    P2P = 11  # pipeline send/recv
    GRAD_SYNC = 12
    OPTIMIZER = 13


@dataclass(frozen=True, slots=True)
class Labels:
    """One row per op of the graph they belong to; -1 (or NONE) where not known or not applicable."""

    phase: Int8  # Phase
    role: Int8  # Role
    microbatch: Int32
    chunk: Int32  # virtual stage on its rank, 0-based
    layer: Int32  # layer in the model, 0-based
    template: Int32  # ops of equal template are instances of one op; -1 unassigned
    layout: Layout
    model: ModelSpec
    evidence: tuple[str, ...]  # how the structure was found, one sentence each

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in ("phase", "role", "microbatch", "chunk", "layer", "template")}
        check_equal_length("Labels", **columns)
        for column in columns.values():
            freeze(column)
