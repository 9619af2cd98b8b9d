"""Interleaved 1F1B over v chunks a rank (Narayanan et al., SC'21, section 2.2; Megatron core's schedule table).

Forwards walk micro-batch groups of g: all of the group through chunk 0, then through chunk 1, and so on; the last group
holds what remains. Backwards walk the same table with the chunks reversed.
"""

from __future__ import annotations

from replay.core.errors import LayoutError
from replay.pipelines._order import ScheduleOrder, Slot, weave

NAME = "interleaved"


def check(p: int, m: int, v: int, g: int) -> None:
    """At least two ranks, p <= g <= m, and a last group that is full or holds at least p micro-batches."""
    if v < 1:
        raise LayoutError(f"schedule interleaved needs at least one chunk a rank, got {v}")
    if p < 2:
        raise LayoutError(f"schedule interleaved needs at least 2 pipeline ranks, got {p}; use vpp 1")
    if not p <= g <= m:
        raise LayoutError(
            f"schedule interleaved needs micro-batch groups between the {p} pipeline ranks and the {m} micro-batches, "
            f"got groups of {g}"
        )
    rest = m % g
    if 0 < rest < p:
        raise LayoutError(
            f"schedule interleaved: {m} micro-batches in groups of {g} leave a last group of {rest}, fewer than the "
            f"{p} pipeline ranks; use a multiple of {g}"
        )


def order(p: int, rank: int, m: int, v: int, g: int) -> ScheduleOrder:
    """Warm-up of min(2(p - rank - 1) + (v - 1)g, m·v) forwards, then one forward and one backward in turn."""
    check(p, m, v, g)
    forward = _table(m, v, g)
    backward = [(microbatch, v - 1 - chunk) for microbatch, chunk in forward]
    return weave(forward, backward, warmup=min(2 * (p - rank - 1) + (v - 1) * g, m * v))


def _table(m: int, v: int, g: int) -> list[Slot]:
    """(micro-batch, chunk) in forward order."""
    return [
        (microbatch, chunk)
        for first in range(0, m, g)
        for chunk in range(v)
        for microbatch in range(first, min(first + g, m))
    ]
