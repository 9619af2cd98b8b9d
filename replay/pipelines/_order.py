"""The order of passes on one pipeline rank, and the warm-up/steady/cool-down weave that Megatron's schedules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Int8, Int32, check_equal_length, freeze
from replay.core.errors import LayoutError
from replay.recording import PassKind

Slot = tuple[int, int]  # (micro-batch, chunk)


@dataclass(frozen=True, slots=True)
class ScheduleOrder:
    """Passes of one pipeline rank in execution order; columns of length 2·m·v."""

    phase: Int8  # PassKind.FORWARD or PassKind.BACKWARD
    microbatch: Int32
    chunk: Int32  # virtual stage on this rank, 0-based
    warmup: int  # leading forwards; each later one is paired with the backward that follows it

    def __post_init__(self) -> None:
        check_equal_length("ScheduleOrder", phase=self.phase, microbatch=self.microbatch, chunk=self.chunk)
        for column in (self.phase, self.microbatch, self.chunk):
            freeze(column)

    def __len__(self) -> int:
        return len(self.phase)


def weave(forward: Sequence[Slot], backward: Sequence[Slot], warmup: int) -> ScheduleOrder:
    """``warmup`` forwards, then one forward and one backward in turn, then the backwards that remain."""
    rows = [(PassKind.FORWARD, *slot) for slot in forward[:warmup]]
    steady = len(forward) - warmup
    for ahead, behind in zip(forward[warmup:], backward[:steady], strict=True):
        rows += [(PassKind.FORWARD, *ahead), (PassKind.BACKWARD, *behind)]
    rows += [(PassKind.BACKWARD, *slot) for slot in backward[steady:]]
    phase, microbatch, chunk = np.array(rows, dtype=np.int64).T
    return ScheduleOrder(phase.astype(np.int8), microbatch.astype(np.int32), chunk.astype(np.int32), warmup)


def check_single_chunk(name: str, p: int, m: int, v: int) -> None:
    """Sizes of the schedules that keep one chunk a rank."""
    if p < 1 or m < 1:
        raise LayoutError(f"schedule {name} needs at least one pipeline rank and one micro-batch, got {p} and {m}")
    if v != 1:
        raise LayoutError(f"schedule {name} has one chunk a rank, but vpp is {v}; use interleaved")
