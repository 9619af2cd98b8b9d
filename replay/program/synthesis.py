"""Synthesis: lay the templates of a Program out again for another pipeline, batch, schedule or expert layout.

Nothing of the measured order is used: passes come from the schedule's (p, m, v, G), transfers between stages from
Megatron's exchanges, groups from the rank order, durations from template means. Waits are recomputed by the simulation.
"""

from __future__ import annotations

from itertools import accumulate

from replay.core.errors import LayoutError, RefusedError
from replay.layout import Layout
from replay.program.groups import coordinates
from replay.program.lay_out import LaidOut, lay_out
from replay.program.parameters import Partition
from replay.program.piece import Timing
from replay.program.templates import Program

MOST_OPS = 20_000_000  # laid out; beyond, memory runs out before the answer comes

__all__ = ["LaidOut", "Timing", "partition", "synthesise"]


def synthesise(
    program: Program, target: Layout, timing: Timing | None = None, chunk_layers: tuple[int, ...] = ()
) -> LaidOut:
    """The graph of ``target``, from the templates of ``program`` with the durations of ``timing``.

    ``chunk_layers`` are the layers of every chunk of the model, where they are not as :func:`partition` deals them out.
    Raises RefusedError for what the input cannot answer and LayoutError for sizes that do not fit the model.
    """
    _check(program.layout, target)
    _check_stages(program, target)
    _check_size(program, target)
    layers = partition(program, target, chunk_layers)
    return lay_out(program, target, timing or Timing.measured(program.graph), layers)


def partition(program: Program, target: Layout, chunk_layers: tuple[int, ...] = ()) -> Partition:
    """Layers of every chunk of the target: as given, else the source's own where it has as many, else even parts."""
    seen = program.chunk_layers
    count = target.pp * target.vpp
    known = [program.labels.model.layers or 0, *(1 + max(chunk, default=-1) for chunk in seen.values())]
    total = max(known)
    if not chunk_layers:
        if count == program.layout.pp * program.layout.vpp and len(seen) == count:
            return tuple(seen[chunk] for chunk in range(count))
        chunk_layers = _even(total, target)
    if len(chunk_layers) != count or sum(chunk_layers) != total:
        raise LayoutError(
            f"--chunk-layers names {len(chunk_layers)} chunks of {sum(chunk_layers)} layers in all, but pp {target.pp} "
            f"x vpp {target.vpp} = {count} chunks share {total} layers"
        )
    ends = list(accumulate(chunk_layers))
    return tuple(tuple(range(end - size, end)) for size, end in zip(chunk_layers, ends, strict=True))


def _even(total: int, target: Layout) -> tuple[int, ...]:
    """Equal chunks; raises LayoutError with the sizes that would be."""
    count = target.pp * target.vpp
    if total % count:
        fits = [v for v in range(1, total + 1) if total % (target.pp * v) == 0]
        hint = f"; with pp {target.pp}, vpp may be {', '.join(map(str, fits))}" if fits else ""
        raise LayoutError(
            f"{total} layers do not divide into pp {target.pp} x vpp {target.vpp} = {count} equal chunks{hint}; "
            "--chunk-layers takes uneven ones, such as 3,3,2"
        )
    return (total // count,) * count


def _check(source: Layout, target: Layout) -> None:
    for name in ("tp", "cp", "etp"):
        before, after = getattr(source, name), getattr(target, name)
        if before != after:
            raise RefusedError(
                f"{name} {before} to {after}: what-ifs that change {name} are not modelled; "
                "pp, vpp, ep, gbs and the schedule can be changed"
            )


def _check_size(program: Program, target: Layout) -> None:
    """Ops grow with the micro-batches."""
    before, after = program.layout.microbatches or 1, target.microbatches or 1
    ops = len(program.graph) * after // before
    if ops > MOST_OPS:
        raise RefusedError(
            f"{after} micro-batches instead of {before} are about {ops:.1e} ops, and at most {MOST_OPS:.0e} are laid "
            "out; ask for a smaller --gbs: the step grows in proportion once the pipeline is full"
        )


def _check_stages(program: Program, target: Layout) -> None:
    """Without a rank of the first and of the last stage, embedding, head and loss cannot be placed."""
    layout = program.layout
    same = target.pp == layout.pp and target.vpp == layout.vpp
    needed = set(range(layout.pp)) if same else {0, layout.pp - 1}
    missing = sorted(needed - {coordinates(layout, rank)["pp"] for rank in program.ranks})
    if missing:
        raise RefusedError(
            f"no rank of pipeline stage {', '.join(map(str, missing))} (of {layout.pp}) is in the input, so what it "
            "holds besides layers (embedding, head and loss) is not known; add the trace of one rank of that stage"
        )
