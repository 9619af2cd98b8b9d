"""The sum of expert gradients that a smaller ep brings about, estimated from the dense one beside it.

With one copy of every expert (expert-data groups of one rank) nothing is summed, so the input cannot show the cost.
Both sums are rings over the same links: t = t_dense · (P_expert / P_dense) · ring(edp) / ring(dp) with
ring(n) = (n - 1) / n and the parameters of a rank P_dense = layers · 4·h² + ends · V·h, P_expert = layers · 3·h·f·E/ep.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.core.evidence import Grade
from replay.graph.types import OpKind
from replay.layout import Layout
from replay.program.groups import sizes
from replay.program.parameters import Partition, ring
from replay.program.piece import Piece
from replay.program.templates import Program, Structure
from replay.program.types import Phase


def expert_sum(program: Program, target: Layout, layers: Partition, dense: Piece) -> tuple[Piece | None, str]:
    """The sum to add behind a chunk's gradient synchronisation ``dense``, and what to say about it.

    Nothing, and nothing to say, where the source has that sum itself or the target has one copy of every expert.
    """
    if program.labels.model.experts is None or not appears(program.layout, target):
        return None, ""
    chunk = dense.key.chunk
    ends = dense_sum(program, dense.structure)
    nbytes = parameter_ratio(program, target, len(layers[chunk]), (chunk == 0) + (chunk == len(layers) - 1))
    if ends is None or nbytes is None or target.dp * target.cp == 1:
        return None, "expert gradients are summed in the target only, and their time is not included"
    shape = cut_out(dense.structure, ends)
    factor = nbytes * ring(sizes(target, expert=True)["dp"]) / ring(target.dp * target.cp)
    duration = np.array([0, round(dense.duration_ns[ends[1]] * factor)], np.int64)
    nothing = np.zeros(2, np.int64)
    scale = dense.nbytes_scale[list(ends)] * nbytes
    grade = np.full(2, Grade.ASSUMED, np.int8)
    piece = Piece(dense.key._replace(ordinal=1), dense.origin, shape, duration, nothing, nothing, scale, grade)
    return piece, "expert gradients are summed in the target only; estimated from the sum of dense gradients"


def appears(source: Layout, target: Layout) -> bool:
    """True when the target sums expert gradients and the source did not."""
    before, after = (sizes(layout, expert=True)["dp"] for layout in (source, target))
    return before == 1 < after


def parameter_ratio(program: Program, target: Layout, layers: int, ends: int) -> float | None:
    """Expert over dense parameters of a rank's chunk; ``None`` where sizes are not known."""
    model = program.labels.model
    if not (model.hidden and model.moe_ffn and model.experts and layers):
        return None
    dense = layers * 4 * model.hidden**2 + ends * (model.vocab or 0) * model.hidden
    return layers * 3 * model.hidden * model.moe_ffn * model.experts / target.ep / dense


def dense_sum(program: Program, shape: Structure) -> tuple[int, int] | None:
    """Positions (arrival, transfer) of the sum of dense gradients in a block; the longest where there are several."""
    graph, phase = program.graph, program.labels.phase
    arrivals: dict[int, int] = {}
    best: tuple[int, int] | None = None
    for position, op in enumerate(shape.ops.tolist()):
        row = int(graph.comm[op])
        family = program.families[row] if row >= 0 else None
        if family is None or family.expert or "dp" not in family.axes or phase[op] != Phase.SYNC:
            continue
        if graph.kind[op] == OpKind.ARRIVAL:
            arrivals[row] = position
        elif row in arrivals and (best is None or graph.duration_ns[op] > graph.duration_ns[shape.ops[best[1]]]):
            best = (arrivals[row], position)
    return best


def cut_out(shape: Structure, ends: tuple[int, int]) -> Structure:
    """A structure of one collective alone: it follows its lane and waits for what the original waits for outside."""
    arrival, _ = ends
    role = shape.roles[arrival]
    none = np.zeros(0, np.int64)
    return replace(
        shape,
        ops=shape.ops[list(ends)],
        roles=(role, role),
        lanes=((role, 0, 1),),
        entry_lag_ns=np.zeros(1, np.int64),
        inner_source=none,
        inner_target=none,
        inner_lag_ns=none,
        inner_from_start=none.astype(np.bool_),
        inner_rule=none.astype(np.int8),
        inner_recorded=none.astype(np.bool_),
        outer=tuple(replace(outer, target=0) for outer in shape.outer if outer.target == arrival),
        host_waits=(),
    )
