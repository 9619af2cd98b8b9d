"""Layouts that the order of passes allows: sizes that are merely assumed give way to those that explain the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from replay.core.columns import Int64
from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.pipelines import schedules
from replay.program.exchange import Stage, passes
from replay.program.groups import coordinates
from replay.program.types import Phase

Runs = Mapping[int, Int64]  # rank → phase of each of its passes, in order of begin
Transfers = Mapping[int, tuple[int, int]]  # rank → pipeline sends and receives seen


def stage_of(layout: Layout, rank: int) -> int:
    """Pipeline rank of a rank."""
    return coordinates(layout, rank)["pp"]


def forwards(runs: Runs) -> int:
    """Forward passes of every rank; 0 where ranks differ."""
    counts = {int((phases == Phase.FORWARD).sum()) for phases in runs.values()}
    return counts.pop() if len(counts) == 1 else 0


def possible(layout: Layout, assumed: frozenset[str], count: int, layers: int | None) -> Iterator[Layout]:
    """``layout``, then those that differ from it in assumed sizes only: fewer stages and chunks first.

    A number of stages divides the ranks that tp and cp leave over, one of chunks the ``count`` of forward passes; every
    chunk holds at least one of the model's ``layers``.
    """
    yield layout
    rest = layout.pp * layout.dp
    stages = [pp for pp in range(1, rest + 1) if rest % pp == 0] if "pp" in assumed else [layout.pp]
    chunks = [vpp for vpp in range(1, count + 1) if count % vpp == 0] if "vpp" in assumed else [layout.vpp]
    for pp, vpp in product(stages, chunks):
        crowded = (pp == 1 and vpp > 1) or (layers is not None and pp * vpp > layers)
        if crowded or (pp, vpp) == (layout.pp, layout.vpp):
            continue
        try:
            yield _with_sizes(layout, pp, vpp)
        except LayoutError:  # expert groups, the batch or the stated schedule do not fit
            continue


def _with_sizes(layout: Layout, pp: int, vpp: int) -> Layout:
    """The same ranks in ``pp`` stages of ``vpp`` chunks; the number of micro-batches follows from the batch."""
    dp = layout.pp * layout.dp // pp
    count = layout.gbs // (layout.mbs * dp) if layout.gbs and layout.mbs else layout.microbatches
    return replace(layout, pp=pp, vpp=vpp, dp=dp, microbatches=count)


def explanations(runs: Runs, layout: Layout) -> Iterator[Layout]:
    """``layout`` with each schedule, number of micro-batches and group size that has every rank's phases in order.

    The stated schedule comes first. The batch is left open: passes need not be those of a whole step.
    """
    count, rest = divmod(forwards(runs), layout.vpp)
    if rest or not count:
        return
    groups = dict.fromkeys((layout.group_size or layout.pp, layout.pp, *range(layout.pp, count + 1)))
    open_batch = replace(layout, gbs=None, mbs=None, microbatches=count)
    for name in sorted(schedules(), key=lambda name: (name != layout.schedule, name)):
        for group in groups if layout.vpp > 1 else (layout.group_size,):
            try:
                complete = replace(open_batch, schedule=name, group_size=group)
                explained = all(_phases(complete, rank) == own.tolist() for rank, own in runs.items())
            except LayoutError:  # a schedule that cannot have these sizes explains nothing
                continue
            if explained:
                yield complete


def _phases(layout: Layout, rank: int) -> list[int]:
    return [int(key.phase) for key in passes(layout, stage_of(layout, rank))]


def needs(layout: Layout, seen: Transfers) -> bool:
    """Whether the passes of a layout send and receive as often as ranks were seen to."""
    for rank, counts in seen.items():
        index = stage_of(layout, rank)
        stage = Stage(index, layout.pp, layout.vpp)
        keys = passes(layout, index)
        sends = sum(stage.output_of(key) is not None for key in keys)
        if (sends, sum(stage.input_of(key) is not None for key in keys)) != counts:
            return False
    return True


def slots(layout: Layout, rank: int) -> dict[Phase, list[tuple[int, int]]]:
    """(micro-batch, chunk) of the k-th pass of each phase of a rank."""
    found: dict[Phase, list[tuple[int, int]]] = {Phase.FORWARD: [], Phase.BACKWARD: []}
    for key in passes(layout, stage_of(layout, rank)):
        found[key.phase].append((key.microbatch, key.chunk // layout.pp))
    return found


def words(layout: Layout) -> str:
    """Schedule and sizes of a complete layout, for a sentence."""
    count = layout.microbatches
    chunks = f", {layout.vpp} chunks a rank in groups of {layout.group_size}" if layout.vpp > 1 else ""
    return f"{layout.schedule} with {count} micro-batch{'' if count == 1 else 'es'}{chunks}"
