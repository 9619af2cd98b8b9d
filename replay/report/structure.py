"""The program found in a step: layers, passes and phases, what they cost, and the evidence for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from replay.core.columns import Bool, Float64, Int64, groups_of
from replay.core.units import ns_to_ms, percent
from replay.graph.types import Graph
from replay.program.label import unassigned_pct
from replay.program.template_ids import MOE_ROLES
from replay.program.types import Labels, Phase, Role

BACKWARDS = (Phase.BACKWARD, Phase.WEIGHT)


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer: its kind, and device time of one pass of one micro-batch on one rank, as mean over all recorded."""

    layer: int
    kind: str  # "moe", "dense", "" where no role tells
    forward_ms: float | None
    backward_ms: float | None  # recomputation included


@dataclass(frozen=True, slots=True)
class StructureFacts:
    """What a step does. Shares are percent of device time; counts are 0 where nothing tells."""

    layers: int = 0
    microbatches: int = 0
    chunks: int = 0  # on a rank
    kinds: Mapping[str, int] = field(default_factory=dict)  # kind → layers
    layer_costs: tuple[LayerRow, ...] = ()
    phase_share_pct: Mapping[str, float] = field(default_factory=dict)
    role_share_pct: Mapping[str, float] = field(default_factory=dict)
    unassigned_pct: float = 0.0
    evidence: tuple[str, ...] = ()


def structure(graph: Graph, labels: Labels) -> StructureFacts:
    """Counts, costs and shares of a labelled step."""
    time = graph.device_time_ns
    rows = tuple(_layer(graph, labels, ops, time) for ops in groups_of(labels.layer))
    kinds = [row.kind for row in rows]
    return StructureFacts(
        len(rows),
        len(np.unique(labels.microbatch[labels.microbatch >= 0])),
        len(np.unique(labels.chunk[labels.chunk >= 0])),
        {kind or "unknown": kinds.count(kind) for kind in sorted(set(kinds))},
        rows,
        {phase.name.lower(): _share(time, labels.phase == phase) for phase in Phase if (labels.phase == phase).any()},
        {role.name.lower(): _share(time, labels.role == role) for role in Role if (labels.role == role).any()},
        unassigned_pct(graph, labels),
        labels.evidence,
    )


def _share(time: Float64, chosen: Bool) -> float:
    return percent(float(time[chosen].sum()), float(time.sum()))


def _layer(graph: Graph, labels: Labels, ops: Int64, time: Float64) -> LayerRow:
    roles = set(labels.role[ops].tolist())
    kind = "moe" if roles & set(MOE_ROLES) else "dense" if Role.MLP in roles else ""
    return LayerRow(
        int(labels.layer[ops[0]]),
        kind,
        _mean_pass_ms(graph, labels, ops[labels.phase[ops] == Phase.FORWARD], time),
        _mean_pass_ms(graph, labels, ops[np.isin(labels.phase[ops], BACKWARDS)], time),
    )


def _mean_pass_ms(graph: Graph, labels: Labels, ops: Int64, time: Float64) -> float | None:
    """Device time of these ops by (rank, micro-batch, chunk), as mean; ``None`` where they take none."""
    chosen = ops[time[ops] > 0]
    if not len(chosen):
        return None
    passes = np.stack([graph.rank[chosen], labels.microbatch[chosen], labels.chunk[chosen]])
    return ns_to_ms(float(time[chosen].sum()) / np.unique(passes, axis=1).shape[1])
