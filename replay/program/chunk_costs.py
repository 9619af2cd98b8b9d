"""What each chunk costs: device time of its forward and backward passes, before and after a what-if (R7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from replay.core.columns import Int32, Int64
from replay.core.statistics import trimmed_mean
from replay.graph.types import Graph, OpKind
from replay.layout import Layout
from replay.program.keys import PASS_PARTS, BlockKey
from replay.program.lay_out import LaidOut
from replay.program.pass_costs import ChunkCost
from replay.program.templates import Program

_WORK = (OpKind.COMPUTE, OpKind.TRANSFER, OpKind.MEMCPY, OpKind.MEMSET)


def measured_chunk_costs(program: Program) -> tuple[ChunkCost, ...]:
    """Of the source, over its ranks and micro-batches."""
    return _chunk_costs(program.graph, program.blocks.keys, program.blocks.of_op, program.layout)


def target_chunk_costs(laid_out: LaidOut, target: Layout) -> tuple[ChunkCost, ...]:
    """Of a graph laid out for ``target``."""
    return _chunk_costs(laid_out.graph, laid_out.keys, laid_out.block, target)


def _chunk_costs(graph: Graph, keys: Sequence[BlockKey], block: Int64 | Int32, layout: Layout) -> tuple[ChunkCost, ...]:
    """Kernels, copies and transfers of the modules of a pass added up; waits and transfers between stages left out."""
    busy = np.isin(graph.kind, _WORK) & (block >= 0)
    per_block = np.bincount(block[busy], weights=graph.duration_ns[busy], minlength=len(keys))
    rank = np.zeros(len(keys), np.int64)
    rank[block[block >= 0]] = graph.rank[block >= 0]
    passes: dict[tuple[int, int, int, int], float] = defaultdict(float)
    for index, key in enumerate(keys):
        if key.part in PASS_PARTS:
            passes[key.chunk, int(key.phase), int(rank[index]), key.microbatch] += per_block[index]
    found: dict[tuple[int, int, str], list[float]] = defaultdict(list)
    names = {int(key.phase): key.phase.name.lower() for key in keys}
    for (chunk, phase, _, _), total in passes.items():
        found[chunk % layout.pp, chunk // layout.pp, names[phase]].append(total)
    return tuple(_cost(*place, np.array(times)) for place, times in sorted(found.items()))


def _cost(stage: int, chunk: int, phase: str, times: np.ndarray[tuple[int], np.dtype[np.float64]]) -> ChunkCost:
    mean = float(trimmed_mean(times))
    return ChunkCost(stage, chunk, phase, mean, float(np.sqrt(trimmed_mean((times - mean) ** 2))), len(times))
