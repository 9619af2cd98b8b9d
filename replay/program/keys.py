"""Names of blocks: what a block is, and which one of its kind."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from replay.program.types import Phase

PASS_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHT)


class Part(IntEnum):
    """What a block is."""

    PROLOGUE = 0
    BEGIN = 1  # of a pass, before its first module
    EMBEDDING = 2
    LAYER = 3
    HEAD = 4
    END = 5  # of a pass, after its last module
    SEND = 6
    RECV = 7
    WAIT = 8  # the host waits for an exchange
    GRAD_SYNC = 9
    TAIL = 10


PASS_PARTS = (Part.BEGIN, Part.EMBEDDING, Part.LAYER, Part.HEAD, Part.END)
P2P_PARTS = (Part.SEND, Part.RECV, Part.WAIT)
TAIL_PARTS = (Part.GRAD_SYNC, Part.TAIL)


class BlockKey(NamedTuple):
    """Identity of a block on its rank. ``chunk`` counts over the whole model: chunk on the rank x pp + stage.

    Sends and receives carry the pass of this rank whose output or input they move. A wait has only an ordinal.
    """

    part: Part
    phase: Phase = Phase.NONE
    microbatch: int = -1
    chunk: int = -1
    layer: int = -1
    ordinal: int = -1

    def same_pass(self, other: BlockKey | None) -> bool:
        """True when both are modules of one pass."""
        return (
            other is not None
            and self.part in PASS_PARTS
            and other.part in PASS_PARTS
            and (self.phase, self.microbatch, self.chunk) == (other.phase, other.microbatch, other.chunk)
        )
