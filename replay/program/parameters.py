"""How gradient synchronisation and optimizer grow with the parameters that a chunk, or a rank, holds.

Parameters are counted in layers. An embedding or a head weighs V·h / p layers, p being the parameters of one layer on
one rank: 4·h² (attention's projections) for dense gradients, plus 3·h·f·E/ep (gate, up and down of the rank's experts)
for the optimizer; nothing where these sizes are not known. Expert gradients live in layers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Float64
from replay.graph.types import OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.groups import coordinates, sizes
from replay.program.keys import TAIL_PARTS, BlockKey
from replay.program.templates import Program
from replay.program.types import Phase
from replay.trace import CollectiveKind

Partition = tuple[tuple[int, ...], ...]


def end_weight(model: ModelSpec, ep: int = 0) -> float:
    """Parameters of an embedding or a head, in layers; ``ep`` > 0 counts the experts of a rank too."""
    if not (model.vocab and model.hidden):
        return 0.0
    layer = 4 * model.hidden**2
    if ep and model.experts and model.moe_ffn:
        layer += 3 * model.hidden * model.moe_ffn * model.experts // ep
    return model.vocab * model.hidden / layer


def weight(layers: Partition, chunks: list[int], ends: float) -> float:
    """Parameters of the given chunks, in layers."""
    held = sum(len(layers[chunk]) for chunk in chunks)
    return held + ends * ((0 in chunks) + (len(layers) - 1 in chunks))


def ring(ranks: int) -> float:
    """Share of a buffer that each rank of a ring sends, per pass: (n - 1) / n."""
    return (ranks - 1) / ranks


@dataclass(frozen=True, slots=True)
class TailScale:
    """Factors on the ops of a tail block: on what they take, and on the bytes they move."""

    duration: Float64
    nbytes: Float64


def tail_scale(
    program: Program, exemplar: int, target: Layout, layers: Partition, place: tuple[BlockKey, int]
) -> TailScale | None:
    """What changes when block ``exemplar`` stands for the tail block ``place`` = (key, rank); ``None`` for nothing.

    Bytes follow parameters. So do durations, times the ring of the data group for sums of gradients, over the data
    group for an optimizer whose state is sharded.
    """
    key, rank = place
    source = program.layout
    if key.part not in TAIL_PARTS or _tail_sizes(source) == _tail_sizes(target):
        return None
    seen = tuple(program.chunk_layers.get(chunk, ()) for chunk in range(source.pp * source.vpp))
    before = _chunks(source, program.blocks.keys[exemplar], int(program.blocks.rank[exemplar]))
    after = _chunks(target, key, rank)
    duration = np.ones(len(program.blocks.ops.row(exemplar)))
    nbytes = duration.copy()
    for kind in _classes(program, exemplar, target):
        held = weight(seen, before, kind.ends)
        if held > 0:
            parameters = weight(layers, after, kind.ends) / held
            duration[kind.ops] = kind.groups * parameters
            nbytes[kind.ops] = kind.experts * parameters
    return TailScale(duration, nbytes)


def _tail_sizes(layout: Layout) -> tuple[int, ...]:
    return (layout.pp, layout.vpp, layout.dp * layout.cp, layout.ep)


@dataclass(frozen=True, slots=True)
class _Class:
    """Ops of a tail block that scale alike."""

    ops: Bool
    ends: float  # weight of an embedding or head
    groups: float = 1.0  # what the data group adds to their duration
    experts: float = 1.0  # what another number of experts a rank adds to their bytes


def _chunks(layout: Layout, key: BlockKey, rank: int) -> list[int]:
    """Chunks whose parameters a block works on: its own, or all of its rank."""
    if key.chunk >= 0:
        return [key.chunk]
    stage = coordinates(layout, rank)["pp"]
    return [chunk * layout.pp + stage for chunk in range(layout.vpp)]


def _classes(program: Program, exemplar: int, target: Layout) -> tuple[_Class, ...]:
    """Dense sums, expert sums (whose duration another ep re-times itself) and optimizer kernels of a block."""
    graph, labels, source = program.graph, program.labels, program.layout
    ops = program.blocks.ops.row(exemplar)
    syncing = (graph.kind[ops] == OpKind.TRANSFER) & (labels.phase[ops] == Phase.SYNC)
    families = [program.families[row] if row >= 0 else None for row in graph.comm[ops].tolist()]
    expert = np.array([family is not None and family.expert for family in families], np.bool_)
    updating = (graph.kind[ops] == OpKind.COMPUTE) & np.isin(labels.phase[ops], (Phase.OPTIMIZER, Phase.SYNC))
    before, after = (layout.dp * layout.cp for layout in (source, target))
    copies = [sizes(layout, expert=True)["dp"] for layout in (source, target)]
    kept_ep = source.ep == target.ep
    return (
        _Class(syncing & ~expert, end_weight(labels.model), _ring_ratio(before, after)),
        _Class(syncing & expert, 0.0, _ring_ratio(*copies) if kept_ep else 1.0, source.ep / target.ep),
        _Class(updating, end_weight(labels.model, source.ep), before / after if _sharded(program) else 1.0),
    )


def _ring_ratio(before: int, after: int) -> float:
    return ring(after) / ring(before) if before > 1 else 1.0


def _sharded(program: Program) -> bool:
    """Whether the optimizer's state is sharded: gradients are reduce-scattered."""
    return bool((program.graph.comms.kind == CollectiveKind.REDUCE_SCATTER).any())
