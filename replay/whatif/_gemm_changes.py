"""How the expert GEMMs of a graph change: factors, brackets and the rows of the report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool
from replay.core.evidence import Grade
from replay.graph.types import OpKind, Rule
from replay.program.expert_ops import ExpertOps, gemm_ops
from replay.program.expert_side import ExpertSide
from replay.program.gemm_shapes import GemmShapes, gemm_shapes
from replay.program.origins import origins
from replay.program.retiming import Change
from replay.program.types import Phase
from replay.whatif._comparison import Comparison, side_quantities
from replay.whatif._draft import Draft, grade_of, quantities
from replay.whatif._expert_gemm import GemmKind, Ratio, device_of, gemm_kinds, ratio, work


def put_gemms(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """Grouped GEMMs, GEMMs of one expert each with their launches, and work on rows."""
    shapes = gemm_shapes(c.graph, c.trace, origins(c.graph, c.trace), gemm_ops(c.graph))
    for kind, chosen in gemm_kinds(c.graph, ops.fused).items():
        name = f"expert {'weight gradients' if kind.weight_gradient else 'GEMMs'}, grouped{', FP8' if kind.fp8 else ''}"
        _put_kind(draft, c, chosen, name, _grouped(c, kind, chosen, ops.fused, shapes))
    for kind, chosen in gemm_kinds(c.graph, ops.separate).items():
        name = f"expert {'weight gradients' if kind.weight_gradient else 'GEMMs'}, one kernel an expert"
        _put_kind(draft, c, chosen, f"{name}{', FP8' if kind.fp8 else ''}", _by_model(c, kind, separate=True))
    if c.new.local_experts != c.old.local_experts:
        _put_launches(draft, c, ops.separate)
    if c.new.load != c.old.load:
        factor = c.new.load / c.old.load * c.rows_load[ops.rowwise]
        sides = side_quantities(c.old), side_quantities(c.new)
        change = Change("expert activations and permutations", *sides, "measured x rows", c.graded(Grade.SCALED))
        draft.put(ops.rowwise, factor, (factor, factor), change)


def _grouped(c: Comparison, kind: GemmKind, chosen: Bool, fused: Bool, shapes: GemmShapes) -> Answer:
    """What the trace itself shows comes first: dense GEMMs, then input gradients; else the model."""
    share = dense_share(c, kind, chosen, fused, shapes)
    if share is not None:
        return _by_share(c, 1 - share, "rate of the step's dense GEMMs")
    share = accumulation_share(c, chosen, fused) if kind.weight_gradient else None
    if share is not None:
        return _by_share(c, share, "input gradients of equal FLOPs")
    return _by_model(c, kind, separate=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A ratio with its formula and grade; ``kernels`` is how many kernels there are per kernel before."""

    ratio: Ratio
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


def dense_share(c: Comparison, kind: GemmKind, chosen: Bool, fused: Bool, shapes: GemmShapes) -> float | None:
    """Share of the grouped GEMMs' time that the same FLOPs take at the rate of the step's dense GEMMs.

    The rate is that of the dense GEMMs whose rows are nearest to the new rows per expert, without weight gradients. The
    rest is what each expert costs: part-filled tiles, start-up, gradient accumulation. ``None`` without shapes.
    """
    rows, precise = c.new.rows_per_expert, gemm_kinds(c.graph, shapes.flops > 0)
    dense = precise.get(GemmKind(weight_gradient=False, fp8=kind.fp8), np.zeros(len(c.graph), np.bool_)) & ~fused
    dense &= shapes.experts == 1
    if rows is None or not dense.any() or not (shapes.flops[chosen] > 0).all():
        return None
    distance = np.abs(np.log(shapes.rows[dense] / rows))
    nearest = np.flatnonzero(dense)[distance <= distance.min() + np.log(1.25)]
    ns_per_flop = c.graph.duration_ns[nearest].sum() / shapes.flops[nearest].sum()
    return float(min(ns_per_flop * shapes.flops[chosen].sum() / c.graph.duration_ns[chosen].sum(), 1.0))


def _by_share(c: Comparison, share: float, evidence: str) -> Answer:
    """``share`` of the time scales with the experts a rank holds, the rest with its rows."""
    rows, experts = c.new.load / c.old.load, c.new.local_experts / c.old.local_experts
    value = (1 - share) * rows + share * experts
    formula = (
        f"measured x (FLOPs: {1 - share:.2f} of the time, each expert's own cost: {share:.2f}, by the {evidence}; the "
        "latter scales with experts a rank)"
    )
    return Answer(Ratio(value, min(value, rows), max(value, rows)), formula, Grade.FITTED)


def _by_model(c: Comparison, kind: GemmKind, *, separate: bool) -> Answer:
    device = device_of(c.profile, kind)
    formula = "measured x FLOPs(new) / FLOPs(old); weight traffic not costed without a profile"
    if device is not None:
        formula = "measured x model(new) / model(old), rows per expert = tokens x top-k x ep / experts x load"
    kernels = c.new.local_experts / c.old.local_experts if separate else 1.0
    answer = ratio(c.old, c.new, kind, device, separate=separate)
    return Answer(answer, formula, grade_of(profiled=device is not None), kernels)


def _put_kind(draft: Draft, c: Comparison, chosen: Bool, name: str, answer: Answer) -> None:
    calls = float(chosen.sum())
    before, after = _gemm_quantities(c.old, calls), _gemm_quantities(c.new, calls * answer.kernels)
    load, found = c.rows_load[chosen], answer.ratio
    change = Change(name, before, after, answer.formula, c.graded(answer.grade))
    draft.put(chosen, found.value * load, (found.low * load, found.high * load), change)


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
