"""The order of passes of every pipeline stage, as words: what a schedule does, for ``--explain``."""

from __future__ import annotations

from replay.layout import Layout
from replay.pipelines import ScheduleOrder
from replay.program.recorded_steps import rank_orders
from replay.recording import PassKind


def pass_order(layout: Layout) -> dict[str, str]:
    """Stage to its passes: ``F3`` is the forward of micro-batch 3, ``B3.1`` the backward through chunk 1 of the rank.

    Empty without a pipeline, and where sizes or schedule are not known.
    """
    if layout.pp == 1 or layout.microbatches is None or layout.schedule is None:
        return {}
    return {str(stage): _words(order, layout.vpp) for stage, order in enumerate(rank_orders(layout))}


def _words(order: ScheduleOrder, chunks: int) -> str:
    letters = {PassKind.FORWARD: "F", PassKind.BACKWARD: "B"}
    passes = zip(order.phase.tolist(), order.microbatch.tolist(), order.chunk.tolist(), strict=True)
    return " ".join(
        f"{letters[PassKind(phase)]}{microbatch}" + (f".{chunk}" if chunks > 1 else "")
        for phase, microbatch, chunk in passes
    )
