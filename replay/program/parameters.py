"""Parameters of a rank's chunks, and what grows with them: gradient sums and the optimizer.

A layer holds its attention projections, a router and shared experts or a dense MLP, and E / ep experts; the embedding
and the head V·h each (see :mod:`replay.costs.training_flops`: a projection's multiply-adds of one token are its
parameters). Where the hidden size is not known every layer counts as one, and ends as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Float64
from replay.costs.training_flops import projection_macs, shared_ffn
from replay.graph.types import OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.groups import coordinates
from replay.program.keys import TAIL_PARTS, BlockKey
from replay.program.templates import Program
from replay.program.types import Labels, Phase
from replay.trace import CollectiveKind

Partition = tuple[tuple[int, ...], ...]
"""Layers of every chunk of the model."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a model on one rank; ``sparse`` are the layers with experts."""

    model: ModelSpec
    sparse: frozenset[int]
    tp: int = 1
    ep: int = 1
    etp: int = 1

    @staticmethod
    def of(labels: Labels, sparse: frozenset[int]) -> Parameters:
        """The parameters of the labelled model as it was measured."""
        layout = labels.layout
        return Parameters(labels.model, sparse, layout.tp, layout.ep, layout.etp)

    def dense(self, layers: Iterable[int], ends: int) -> float:
        """Parameters outside of experts: of layers, and of ``ends`` embeddings and heads."""
        model = self.model
        if not model.hidden:
            return float(len(tuple(layers)))
        total = ends * (model.vocab or 0) * float(model.hidden)
        for layer in layers:
            beside = shared_ffn(model) if layer in self.sparse else model.ffn or 0
            router = model.hidden * (model.experts or 0) if layer in self.sparse else 0
            total += self._projections + self._matrices * model.hidden * beside + router
        return total / self.tp

    def experts(self, layers: Iterable[int]) -> float:
        """Parameters of the rank's own experts; 0 where sizes are not known."""
        model = self.model
        if not (model.hidden and model.moe_ffn and model.experts):
            return 0.0
        held = sum(layer in self.sparse for layer in layers) * model.experts / self.ep
        return held * self._matrices * model.hidden * model.moe_ffn / self.etp

    @property
    def _projections(self) -> float:
        """Attention of one layer; four matrices of h x h where heads are not known."""
        known = self.model.heads or self.model.kv_lora_rank
        return projection_macs(self.model) if known else 4.0 * (self.model.hidden or 0) ** 2

    @property
    def _matrices(self) -> int:
        """Projections of an MLP: gate, up and down unless it is known to be plain."""
        return 2 if self.model.gated is False else 3


@dataclass(frozen=True, slots=True)
class Held:
    """Parameters that a block works on, outside of experts and in them."""

    dense: float
    experts: float


def held(program: Program, layout: Layout, layers: Partition, place: tuple[BlockKey, int], ep: int) -> Held:
    """Parameters of the chunk of block ``place`` = (key, rank), or of all of its rank, with experts over ``ep``."""
    chunks = _chunks(layout, *place)
    counted = Parameters(program.labels.model, program.sparse_layers, layout.tp, ep, layout.etp)
    every = [layer for chunk in chunks for layer in layers[chunk]]
    ends = (0 in chunks) + (len(layers) - 1 in chunks)
    return Held(counted.dense(every, ends), counted.experts(every))


@dataclass(frozen=True, slots=True)
class TailScale:
    """Factors on the ops of a tail block.

    ``duration`` is that of kernels, ``nbytes`` what sums move, ``chunk`` the part of ``nbytes`` that is due to other
    layers and not to another ep, which is re-timed on the ops themselves.
    """

    duration: Float64
    nbytes: Float64
    chunk: Float64


def tail_scale(
    program: Program, exemplar: int, target: Layout, layers: Partition, place: tuple[BlockKey, int]
) -> TailScale | None:
    """What changes when block ``exemplar`` stands for the block ``place`` = (key, rank); ``None`` for nothing.

    All follow the parameters; an optimizer whose state is sharded over the data group also follows that group's size.
    Outside of the tail, where sums overlap the backward, only another ep changes what a layer's sum moves.
    """
    source, (key, _) = program.layout, place
    seen = tuple(program.chunk_layers.get(chunk, ()) for chunk in range(source.pp * source.vpp))
    if _tail_sizes(source) == _tail_sizes(target) and seen == layers:
        return None
    if key.part not in TAIL_PARTS:
        return _overlapped(program, exemplar, source.ep / target.ep) if source.ep != target.ep else None
    measured = (program.blocks.keys[exemplar], int(program.blocks.rank[exemplar]))
    before, after = held(program, source, seen, measured, target.ep), held(program, target, layers, place, target.ep)
    ops = program.blocks.ops.row(exemplar)
    duration, nbytes, chunk = np.ones(len(ops)), np.ones(len(ops)), np.ones(len(ops))
    sums, expert = _sums(program, exemplar)
    chunk[sums & ~expert] = _ratio(after.dense, before.dense)
    chunk[sums & expert] = _ratio(after.experts, before.experts)
    nbytes[sums] = chunk[sums] * np.where(expert[sums], source.ep / target.ep, 1.0)
    shards = source.dp * source.cp / (target.dp * target.cp) if _sharded(program) else 1.0
    updates = np.isin(program.labels.phase[ops], (Phase.OPTIMIZER, Phase.SYNC))
    kernels = updates & (program.graph.kind[ops] == OpKind.COMPUTE)
    duration[kernels] = _ratio(after.dense + after.experts, before.dense + before.experts) * shards
    return TailScale(duration, nbytes, chunk)


def _overlapped(program: Program, exemplar: int, experts: float) -> TailScale | None:
    """Sums of expert gradients beside a backward move ``experts`` times the bytes."""
    sums, expert = _sums(program, exemplar)
    one = np.ones(len(sums))
    return TailScale(one, np.where(sums & expert, experts, 1.0), one) if (sums & expert).any() else None


def _ratio(after: float, before: float) -> float:
    return after / before if before > 0 else 1.0


def _tail_sizes(layout: Layout) -> tuple[int, ...]:
    return (layout.pp, layout.vpp, layout.dp * layout.cp, layout.ep)


def _chunks(layout: Layout, key: BlockKey, rank: int) -> list[int]:
    """Chunks whose parameters a block works on: its own, or all of its rank."""
    if key.chunk >= 0:
        return [key.chunk]
    stage = coordinates(layout, rank)["pp"]
    return [chunk * layout.pp + stage for chunk in range(layout.vpp)]


def _sums(program: Program, exemplar: int) -> tuple[Bool, Bool]:
    """Ops of a block that sum gradients over replicas, and those of them that sum experts'."""
    graph = program.graph
    ops = program.blocks.ops.row(exemplar)
    families = [program.families[row] if row >= 0 else None for row in graph.comm[ops].tolist()]
    summed = np.array([family is not None and family.of_replicas for family in families], np.bool_)
    expert = np.array([family is not None and family.expert for family in families], np.bool_)
    return summed & (program.labels.phase[ops] == Phase.SYNC), expert


def _sharded(program: Program) -> bool:
    """Whether the optimizer's state is sharded: gradients are reduce-scattered."""
    return bool((program.graph.comms.kind == CollectiveKind.REDUCE_SCATTER).any())
