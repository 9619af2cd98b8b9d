"""GPipe: every forward, then every backward (Huang et al., GPipe, 2019, section 2.3).

Backwards run in the order of the forwards, as Megatron's all-warm-up case runs them.
"""

from __future__ import annotations

from replay.pipelines._order import ScheduleOrder, check_single_chunk, weave

NAME = "gpipe"


def check(p: int, m: int, v: int, g: int) -> None:
    """Any number of ranks and micro-batches, one chunk a rank."""
    check_single_chunk(NAME, p, m, v)


def order(p: int, rank: int, m: int, v: int, g: int) -> ScheduleOrder:
    """m forwards, then m backwards, on every rank."""
    check(p, m, v, g)
    slots = [(microbatch, 0) for microbatch in range(m)]
    return weave(slots, slots, warmup=m)
