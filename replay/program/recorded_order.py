"""Which schedule a recording ran: the one whose order, from (p, m, v, g) alone, is the recorded order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replay.core.errors import LayoutError, RefusedError
from replay.layout import Layout
from replay.pipelines import schedules
from replay.program.p2p import passes_of
from replay.program.pipeline_graph import out_of_order
from replay.program.recorded_steps import RecordedStep, rank_orders

_TOLERATED = 0.1  # of the passes: a few swapped ones do not make another schedule


def scheduled(layout: Layout, step: RecordedStep, dp_ranks: Sequence[int]) -> tuple[Layout, tuple[str, ...]]:
    """The layout with the schedule that ``step`` ran, and what to be warned of.

    The layout's own schedule wins a tie. Raises :class:`RefusedError` when no known schedule comes near.
    """
    layout = replace(layout, schedule=layout.schedule or ("interleaved" if layout.vpp > 1 else "1f1b"))
    moved = {name: count for name in schedules() if (count := _moved(layout, name, step, dp_ranks)) is not None}
    best = min(moved, key=lambda name: (moved[name], name != layout.schedule), default=None)
    if best is None or moved[best] > _TOLERATED * len(step.passes):
        raise RefusedError(
            f"the passes of step {step.step} run in no known schedule's order for {layout.pp} pipeline ranks, "
            f"{layout.vpp} chunks and {layout.microbatches} micro-batches ({', '.join(sorted(schedules()))}); "
            "give the recording of every rank, and --from for sizes it does not tell"
        )
    warnings = []
    if best != layout.schedule:
        warnings.append(f"the passes run in the order of schedule {best}, not {layout.schedule}; {best} is replayed")
    if moved[best]:
        share = f"{moved[best]} of {len(step.passes)} passes of step {step.step}"
        warnings.append(f"{share} ran at another place than schedule {best} says; the replay follows the schedule")
    return replace(layout, schedule=best), tuple(warnings)


def _moved(layout: Layout, name: str, step: RecordedStep, dp_ranks: Sequence[int]) -> int | None:
    """Passes that ran at another place than schedule ``name`` says; None when it cannot run these sizes."""
    try:
        orders = rank_orders(replace(layout, schedule=name))
    except LayoutError:
        return None
    workers = [(dp_rank, stage, order) for dp_rank in dp_ranks for stage, order in enumerate(orders)]
    return sum(out_of_order(step, passes_of(order, dp_rank, stage)) for dp_rank, stage, order in workers)
