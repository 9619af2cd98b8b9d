"""How gradient synchronisation and optimizer grow with the parameters that a chunk, or a rank, holds.

Parameters are counted in layers. An embedding or a head weighs V·h / p layers, p being the parameters of one layer on
one rank: 4·h² (attention's projections) for dense gradients, plus 3·h·f·E/ep (gate, up and down of the rank's experts)
for the optimizer; nothing where these sizes are not known. Expert gradients live in layers only.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Float64
from replay.graph.types import OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.groups import coordinates
from replay.program.keys import BlockKey, Part
from replay.program.templates import Program
from replay.program.types import Phase

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


def tail_scale(
    program: Program, exemplar: int, target: Layout, layers: Partition, place: tuple[BlockKey, int]
) -> Float64 | None:
    """Factor on every op of block ``exemplar`` when it stands for the tail block ``place`` = (key, rank).

    ``None`` where it does not depend on parameters, or the number of chunks (so their layers) is unchanged.
    """
    key, rank = place
    source = program.layout
    if key.part not in (Part.GRAD_SYNC, Part.TAIL) or source.pp * source.vpp == target.pp * target.vpp:
        return None
    seen = tuple(program.chunk_layers.get(chunk, ()) for chunk in range(source.pp * source.vpp))
    origin = program.blocks.keys[exemplar]
    before = _chunks(source, origin, int(program.blocks.rank[exemplar]))
    after = _chunks(target, key, rank)
    ops = program.blocks.ops.row(exemplar)
    factor = np.ones(len(ops))
    for mask, ends in _classes(program, exemplar):
        held = weight(seen, before, ends)
        if held > 0:
            factor[mask] = weight(layers, after, ends) / held
    return factor


def _chunks(layout: Layout, key: BlockKey, rank: int) -> list[int]:
    """Chunks whose parameters a block works on: its own, or all of its rank."""
    if key.chunk >= 0:
        return [key.chunk]
    stage = coordinates(layout, rank)["pp"]
    return [chunk * layout.pp + stage for chunk in range(layout.vpp)]


def _classes(program: Program, exemplar: int) -> list[tuple[Bool, float]]:
    """Ops of a block that scale alike: dense transfers, expert transfers, optimizer kernels, with their end weight."""
    graph, labels = program.graph, program.labels
    ops = program.blocks.ops.row(exemplar)
    syncing = (graph.kind[ops] == OpKind.TRANSFER) & (labels.phase[ops] == Phase.SYNC)
    families = [program.families[row] if row >= 0 else None for row in graph.comm[ops].tolist()]
    expert = np.array([family is not None and family.expert for family in families], np.bool_)
    updating = (graph.kind[ops] == OpKind.COMPUTE) & np.isin(labels.phase[ops], (Phase.OPTIMIZER, Phase.SYNC))
    return [
        (syncing & ~expert, end_weight(labels.model)),
        (syncing & expert, 0.0),
        (updating, end_weight(labels.model, program.layout.ep)),
    ]
