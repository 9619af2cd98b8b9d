"""1F1B without interleaving (Narayanan et al., PipeDream-Flush; Megatron's non-interleaved schedule)."""

from __future__ import annotations

from replay.pipelines._order import ScheduleOrder, check_single_chunk, weave

NAME = "1f1b"


def check(p: int, m: int, v: int, g: int) -> None:
    """Any number of ranks and micro-batches, one chunk a rank."""
    check_single_chunk(NAME, p, m, v)


def order(p: int, rank: int, m: int, v: int, g: int) -> ScheduleOrder:
    """Warm-up of min(p - rank - 1, m) forwards, then one forward and one backward in turn, then backwards."""
    check(p, m, v, g)
    slots = [(microbatch, 0) for microbatch in range(m)]
    return weave(slots, slots, warmup=min(p - rank - 1, m))
