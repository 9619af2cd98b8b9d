"""How the expert GEMMs of a graph change: factors, brackets and the rows of the report."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Bool, Float64
from replay.core.evidence import Grade
from replay.core.units import NS_PER_US
from replay.graph.types import OpKind, Rule
from replay.program.expert_ops import ExpertOps, gemm_ops
from replay.program.expert_side import ExpertSide
from replay.program.gemm_shapes import GemmShapes, gemm_shapes
from replay.program.origins import origins
from replay.program.retiming import Change
from replay.program.types import Phase
from replay.whatif._comparison import Comparison, side_quantities
from replay.whatif._draft import Draft, quantities
from replay.whatif._expert_gemm import (
    GemmKind,
    Ratio,
    device_of,
    gemm_kinds,
    grade_between,
    named_weight_gradients,
    ratio,
    work,
)
from replay.whatif._grouped_cost import GroupedCost, learn

_SHAPE_DOUBT = 0.25  # share of the way to "all time scales with rows" or "with experts" that the bracket goes


def put_gemms(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """Grouped GEMMs, GEMMs of one expert each with their launches, and work on rows."""
    shapes = gemm_shapes(c.graph, c.trace, origins(c.graph, c.trace), gemm_ops(c.graph))
    named = named_weight_gradients(c.graph)
    weights = named | shapes.weight_gradient
    for kind, chosen in gemm_kinds(c.graph, ops.fused, weights).items():
        name = f"expert {'weight gradients' if kind.weight_gradient else 'GEMMs'}, grouped{', FP8' if kind.fp8 else ''}"
        _put_kind(draft, c, chosen, name, _grouped(c, kind, chosen, ops.fused, shapes))
    for kind, chosen in gemm_kinds(c.graph, ops.separate, weights).items():
        name = f"expert {'weight gradients' if kind.weight_gradient else 'GEMMs'}, one kernel an expert"
        _put_kind(draft, c, chosen, f"{name}{', FP8' if kind.fp8 else ''}", _by_model(c, chosen, kind, separate=True))
    if c.new.local_experts != c.old.local_experts:
        _put_launches(draft, c, ops.separate)
    if c.new.load != c.old.load:
        factor = c.new.load / c.old.load * c.rows_load[ops.rowwise]
        sides = side_quantities(c.old), side_quantities(c.new)
        change = Change("expert activations and permutations", *sides, "measured x rows", c.graded(Grade.SCALED))
        draft.put(ops.rowwise, factor, (factor, factor), change)


def _grouped(c: Comparison, kind: GemmKind, chosen: Bool, fused: Bool, shapes: GemmShapes) -> Answer:
    """What the trace itself shows comes first: GEMMs of known shapes, then input gradients; else the model."""
    cost = _shown_cost(c, kind, fused, shapes)
    unsure = cost is None or (cost.assumed and device_of(c.profile, kind) is not None)
    if cost is not None and not unsure and (shapes.flops[chosen] > 0).all() and (shapes.experts[chosen] > 0).all():
        return _by_shapes(c, kind, chosen, shapes, cost)
    share = accumulation_share(c, chosen, fused) if kind.weight_gradient else None
    if share is not None:
        return _by_share(c, chosen, share)
    return _by_model(c, chosen, kind, separate=False)


def _shown_cost(c: Comparison, kind: GemmKind, fused: Bool, shapes: GemmShapes) -> GroupedCost | None:
    """The cost that the step's GEMMs of this precision show, weight gradients aside: their traffic is their own.

    Where no name tells those of dense layers, only forward passes show what dense GEMMs cost.
    """
    named = named_weight_gradients(c.graph)
    weights = named | shapes.weight_gradient
    precise = gemm_kinds(c.graph, shapes.flops > 0, weights).get(GemmKind(weight_gradient=False, fp8=kind.fp8))
    told = named.any() | (c.labels.phase == Phase.FORWARD)
    if precise is None or not (dense := precise & ~fused & (shapes.experts == 1) & told).any():
        return None
    return learn(c.graph.duration_ns.astype(np.float64), shapes, precise & fused, dense)


def _by_shapes(c: Comparison, kind: GemmKind, chosen: Bool, shapes: GemmShapes, cost: GroupedCost) -> Answer:
    """Each op by its own shape: as many experts and rows as its rank gets in the target."""
    measured = np.maximum(c.graph.duration_ns[chosen].astype(np.float64), 1.0)
    experts, flops, rows = shapes.experts[chosen], shapes.flops[chosen], shapes.rows[chosen]
    load, held = c.new.load / c.old.load * c.rows_load[chosen], c.new.local_experts / c.old.local_experts
    before = cost.time_ns(experts, flops, rows / experts)
    after = cost.time_ns(experts * held, flops * load, rows * load / (experts * held))
    own = np.maximum(measured - before, 0.0) if kind.weight_gradient else np.zeros(len(measured))
    value = (after + own * held) / (before + own)
    least, most = np.minimum(load, held), np.maximum(load, held)
    low, high = (
        value + _SHAPE_DOUBT * (bound - value) for bound in (np.minimum(least, value), np.maximum(most, value))
    )
    formula = (
        f"measured x (a E + u F)(new) / (old), as the step's GEMMs show: a = {cost.expert_ns / NS_PER_US:.1f} us an "
        "expert, u = time per FLOP at its rows" + (", and its weights' traffic with E" if kind.weight_gradient else "")
    )
    return Answer(value, low, high, formula, Grade.ASSUMED if cost.assumed else Grade.FITTED)


@dataclass(frozen=True, slots=True)
class Answer:
    """Factors on the ops, their bracket, formula and grade; ``kernels`` is how many there are per kernel before."""

    value: Float64
    low: Float64
    high: Float64
    formula: str
    grade: Grade
    kernels: float = 1.0


def accumulation_share(c: Comparison, weight_gradients: Bool, fused: Bool) -> float | None:
    """Share of the weight gradients' time that goes into adding to the main gradients, as the trace shows it.

    Weight and input gradients of the same matrices are the same FLOPs, so what the former take longer is the traffic
    of accumulation: 1 - input gradients / weight gradients. ``None`` unless both are there in equal number.
    """
    inputs = fused & ~weight_gradients & (c.labels.phase == Phase.BACKWARD)
    slow, fast = (float(c.graph.duration_ns[ops].sum()) for ops in (weight_gradients, inputs))
    if inputs.sum() != weight_gradients.sum() or not 0 < fast < slow:
        return None
    return 1.0 - fast / slow


def _by_share(c: Comparison, chosen: Bool, share: float) -> Answer:
    """``share`` of the time scales with the experts a rank holds, the rest with its rows."""
    rows, experts = c.new.load / c.old.load, c.new.local_experts / c.old.local_experts
    value = (1 - share) * rows + share * experts
    formula = (
        f"measured x (FLOPs: {1 - share:.2f} of the time, each expert's own cost: {share:.2f}, by the input gradients "
        "of equal FLOPs; the latter scales with experts a rank)"
    )
    return _even(c, chosen, Ratio(value, min(value, rows), max(value, rows)), formula, Grade.FITTED)


def _by_model(c: Comparison, chosen: Bool, kind: GemmKind, *, separate: bool) -> Answer:
    device = device_of(c.profile, kind)
    formula = "measured x FLOPs(new) / FLOPs(old); weight traffic not costed without a profile"
    if device is not None:
        formula = "measured x GEMM model(new) / model(old), rows per expert = tokens x top-k x ep / experts x load"
    engine = None if device is None else device.engine
    found = ratio(c.old, c.new, kind, engine, separate=separate)
    answer = _even(c, chosen, found, formula, grade_between(c.old, c.new, kind, device))
    return replace(answer, kernels=c.new.local_experts / c.old.local_experts if separate else 1.0)


def _even(c: Comparison, chosen: Bool, found: Ratio, formula: str, grade: Grade) -> Answer:
    """One ratio for all ops, each times the load of its own rank and layer."""
    load = c.rows_load[chosen]
    return Answer(found.value * load, found.low * load, found.high * load, formula, grade)


def _put_kind(draft: Draft, c: Comparison, chosen: Bool, name: str, answer: Answer) -> None:
    calls = float(chosen.sum())
    before, after = _gemm_quantities(c.old, calls), _gemm_quantities(c.new, calls * answer.kernels)
    change = Change(name, before, after, answer.formula, c.graded(answer.grade))
    draft.put(chosen, answer.value, (answer.low, answer.high), change)


def _put_launches(draft: Draft, c: Comparison, separate: Bool) -> None:
    """Host time of launching one kernel an expert: as many more launches as there are more experts on the rank."""
    edges = c.graph.edges
    launching = (edges.rule == Rule.LAUNCH) & separate[edges.target]
    calls = np.zeros(len(c.graph), dtype=np.bool_)
    calls[edges.source[launching]] = True
    calls &= c.graph.kind == OpKind.CALL
    factor = c.new.local_experts / c.old.local_experts
    before = quantities(calls=float(calls.sum()))
    after = quantities(calls=float(calls.sum()) * factor)
    change = Change("launches of expert GEMMs", before, after, "measured x experts a rank", Grade.SCALED)
    draft.put(calls, factor, (min(factor, 1.0), max(factor, 1.0)), change)


def _gemm_quantities(side: ExpertSide, calls: float) -> dict[str, float]:
    return quantities(
        experts_per_rank=side.local_experts, rows_per_expert=side.rows_per_expert, flop_per_pass=work(side), calls=calls
    )
