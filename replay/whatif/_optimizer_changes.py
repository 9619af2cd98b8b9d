"""The optimizer under another expert layout: its time follows the parameters that a rank updates."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Float64
from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind
from replay.program.parameters import Parameters
from replay.program.retiming import Change
from replay.program.templates import group_families, sparse_layers
from replay.program.types import Labels, Phase, Role
from replay.trace import CollectiveKind
from replay.whatif._comparison import Comparison
from replay.whatif._draft import Draft, quantities

_SHARDED = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)


def put_optimizer(draft: Draft, c: Comparison, labels: Labels) -> None:
    """The optimizer updates the experts of its rank: as many fewer as ep grows."""
    updates = (labels.phase == Phase.OPTIMIZER) & (c.graph.kind == OpKind.COMPUTE)
    if c.old.local_experts == c.new.local_experts or not updates.any():
        return
    share = expert_share(c.graph, labels)
    share = np.where(np.isnan(share), share_by_model(c.graph, labels), share)[updates]
    if np.isnan(share).any():
        draft.warn("the share of experts among the updated parameters is not known; the optimizer is kept as measured")
    share = np.nan_to_num(share)
    ratio = c.new.local_experts / c.old.local_experts
    change = Change(
        "optimizer",
        quantities(experts_per_rank=c.old.local_experts, share_of_experts=float(share.mean())),
        quantities(experts_per_rank=c.new.local_experts),
        "measured x (1 + s (experts per rank(new) / (old) - 1)), s = expert parameters / all parameters of a rank",
        Grade.SCALED,
    )
    draft.put(updates, 1 + share * (ratio - 1), (min(ratio, 1.0), max(ratio, 1.0)), change)


def expert_share(graph: Graph, labels: Labels) -> Float64:
    """Share of expert parameters among those that each op's rank updates.

    Read off the bytes of gradients: those summed over expert-data groups against those over data groups; NaN where a
    rank shows only one of them. A sharded optimizer (reduce-scatter) updates as many expert parameters whatever ep is,
    experts·ep/world of each, so there the share that changes is 0.
    """
    families = group_families(graph, labels)
    expert = np.zeros(len(graph), np.bool_)
    summed = (graph.kind == OpKind.TRANSFER) & (labels.phase == Phase.SYNC) & (graph.comm >= 0)
    for op in np.flatnonzero(summed).tolist():
        family = families[graph.comm[op]]
        summed[op] = family is not None and "dp" in family.axes and graph.comms.nbytes[graph.comm[op]] > 0
        expert[op] = family is not None and family.expert
    rows = graph.comm[summed]
    if np.isin(graph.comms.kind[rows], _SHARDED).any():
        return np.zeros(len(graph))
    ranks = int(graph.rank.max(initial=0)) + 1
    nbytes = graph.comms.nbytes[rows].astype(np.float64)
    total = np.bincount(graph.rank[summed], nbytes, ranks)
    experts = np.bincount(graph.rank[summed], nbytes * expert[summed], ranks)
    known = (experts > 0) & (experts < total)
    share = np.where(known, experts / np.where(known, total, 1), np.nan)
    return np.asarray(share[graph.rank])


def share_by_model(graph: Graph, labels: Labels) -> Float64:
    """The same share from the model's sizes (:class:`Parameters`); NaN where they are not known."""
    model = labels.model
    if not (model.hidden and model.moe_ffn and model.experts):
        return np.full(len(graph), np.nan)
    counted = Parameters.of(labels, sparse_layers(labels))
    share = np.full(int(graph.rank.max(initial=0)) + 1, np.nan)
    for rank in np.unique(graph.rank).tolist():
        own = graph.rank == rank
        layers = np.unique(labels.layer[own & (labels.layer >= 0)]).tolist()
        ends = sum(bool((labels.role[own] == role).any()) for role in (Role.EMBEDDING, Role.HEAD))
        expert = counted.experts(layers)
        share[rank] = expert / (expert + counted.dense(layers, ends)) if layers else np.nan
    return np.asarray(share[graph.rank])
