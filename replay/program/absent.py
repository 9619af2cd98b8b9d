"""What a program leaves out because a group has one rank, and a target with larger groups does.

Each is put back into the measured graph as collectives that take no time (:mod:`replay.program.lone_groups`), with the
bytes that it would move; what they take in the target comes from the links.

* ep 1: the exchange of T·k rows of h elements around the experts, T = s·b / (tp·cp) tokens.
* dp·cp 1: the sum of a chunk's dense gradients, four bytes each (Megatron accumulates and reduces them in FP32).
* one replica of every expert: the sum of a chunk's expert gradients beside every sum of dense ones.
* pp 1: one activation of T·h elements from stage to stage.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool
from replay.core.errors import RefusedError
from replay.graph.types import Graph, OpKind
from replay.layout import Layout
from replay.program.comm_ops import is_p2p
from replay.program.expert_ops import expert_ops
from replay.program.groups import coordinates, sizes
from replay.program.lone_groups import (
    beside_sums,
    lone_exchanges,
    lone_gradient_sums,
    lone_transfers,
    with_collectives,
)
from replay.program.parameters import Parameters
from replay.program.templates import group_families, sparse_layers
from replay.program.types import Labels, Phase

ACTIVATION_NBYTES = 2  # of an element (BF16, FP16)
GRADIENT_NBYTES = 4

Labelled = tuple[Graph, Labels]


def with_absent(graph: Graph, labels: Labels, target: Layout) -> tuple[Graph, Labels, tuple[str, ...]]:
    """``graph`` and ``labels`` with what ``target`` does and the source did not, and what was put back, in words.

    Raises :class:`RefusedError` where nothing tells the bytes of what the target does.
    """
    source = labels.layout
    notes = []
    if source.ep == 1 < target.ep:
        graph, labels = _with_exchanges(graph, labels)
        notes.append("the exchange of tokens with the experts' ranks")
    if source.dp * source.cp == 1 < target.dp * target.cp:
        graph, labels = _with_dense_sums(graph, labels)
        notes.append("the sum of gradients")
    replicas = sizes(target, expert=True)["dp"]
    replicated = sizes(source, expert=True)["dp"] == 1 < replicas
    if replicated and source.ep > 1 and not labels.model.experts:
        raise RefusedError(
            f"the target sums gradients of experts over {replicas} replicas, which the input does not, and nothing "
            "says how many parameters the experts have: give --model"
        )
    if replicated and labels.model.experts:
        graph, labels = _with_expert_sums(graph, labels)
        notes.append("the sum of expert gradients")
    if source.pp == 1 < target.pp:
        graph, labels = with_collectives(graph, labels, lone_transfers(graph, labels, _activation_nbytes(labels)))
        notes.append("pipeline transfers")
    sentences = (f"the input has no {what.removeprefix('the ')}; it is costed by bytes and links" for what in notes)
    return graph, labels, tuple(sentences)


def _with_exchanges(graph: Graph, labels: Labels) -> Labelled:
    model = labels.model
    if model.experts is None or model.topk is None:
        raise RefusedError(f"the input does not say the model's experts and top-k, which ep {labels.layout.ep} to more "
                           "ranks needs: give --model config.json")  # fmt: skip
    ops = expert_ops(graph, labels, labels.layout, graph.measured_start_ns, model.experts)
    work: Bool = ops.fused | ops.separate | ops.rowwise
    if not work.any():
        raise RefusedError(
            "the step was measured with ep 1 and no expert work can be told apart in it, so nothing says where tokens "
            "would be exchanged: record with ranges such as 'experts' around it, or give a measurement with ep 2"
        )
    nbytes = round(_activation_nbytes(labels) * model.topk)
    return with_collectives(graph, labels, lone_exchanges(graph, labels, work, nbytes))


def _activation_nbytes(labels: Labels) -> int:
    """Bytes of one micro-batch's activation on one rank: s·b·h·2 / (tp·cp)."""
    layout, model = labels.layout, labels.model
    seq, known = layout.seq or model.seq, ("hidden size (--model)", "sequence and micro-batch (--from seq=...,mbs=...)")
    missing = [what for what, there in zip(known, (model.hidden, seq and layout.mbs), strict=True) if not there]
    if missing or not (model.hidden and seq and layout.mbs):
        needed = " and the ".join(missing)
        raise RefusedError(f"the target moves activations between ranks where the input did not: give the {needed}")
    return seq * layout.mbs * model.hidden * ACTIVATION_NBYTES // (layout.tp * layout.cp)


def _with_dense_sums(graph: Graph, labels: Labels) -> Labelled:
    """One sum a rank and chunk."""
    if labels.model.hidden is None:
        raise RefusedError(
            "the target sums gradients where the input did not; how many needs the hidden size (--model)"
        )
    counted = Parameters.of(labels, sparse_layers(labels))
    nbytes = {}
    for rank in np.unique(graph.rank).tolist():
        for chunk in range(labels.layout.vpp):
            layers, ends = _chunk(graph, labels, rank, chunk)
            nbytes[rank, chunk] = round(counted.dense(layers, ends) * GRADIENT_NBYTES)
    return with_collectives(graph, labels, lone_gradient_sums(graph, labels, nbytes))


def _with_expert_sums(graph: Graph, labels: Labels) -> Labelled:
    """One sum beside every sum of dense gradients, as large as the chunk's experts are beside its other parameters."""
    counted = Parameters.of(labels, sparse_layers(labels))
    families = group_families(graph, labels)
    dense = (graph.kind == OpKind.TRANSFER) & (labels.phase == Phase.SYNC) & ~is_p2p(graph)
    for op in np.flatnonzero(dense).tolist():
        family = families[graph.comm[op]] if graph.comm[op] >= 0 else None
        dense[op] = family is not None and family.of_replicas and not family.expert
    share: dict[tuple[int, int], float] = {}  # (rank, chunk) → expert parameters over the others
    nbytes = {}
    for op in np.flatnonzero(dense).tolist():
        place, known = (int(graph.rank[op]), int(labels.chunk[op])), int(graph.comms.nbytes[graph.comm[op]])
        if place not in share:
            layers, ends = _chunk(graph, labels, *place)
            beside = counted.dense(layers, ends)
            share[place] = counted.experts(layers) / beside if beside else 0.0
        if share[place] and known > 0:
            nbytes[op] = round(known * share[place])
    return with_collectives(graph, labels, beside_sums(graph, labels, nbytes))


def _chunk(graph: Graph, labels: Labels, rank: int, chunk: int) -> tuple[list[int], int]:
    """Layers and number of ends (embedding, head) of a rank's chunk; of all of its chunks where ``chunk`` is -1."""
    layout = labels.layout
    own = (graph.rank == rank) & (labels.layer >= 0) & ((labels.chunk == chunk) | (chunk < 0))
    stage = coordinates(layout, rank)["pp"]
    first = stage == 0 and chunk <= 0
    last = stage == layout.pp - 1 and (chunk < 0 or chunk == layout.vpp - 1)
    return np.unique(labels.layer[own]).tolist(), first + last
