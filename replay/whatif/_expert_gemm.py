"""Expert GEMMs under another expert layout: the same FLOPs a rank in other shapes (R8)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hwprofiles import HardwareProfile
from replay.core.columns import Bool
from replay.core.evidence import Grade
from replay.core.units import NS_PER_S
from replay.costs import grouped_gemm
from replay.costs.engine import Engine, GradedEngine, engine_of
from replay.costs.gemm import Precision, flops, traffic_nbytes
from replay.costs.grouped_gemm import ExpertMatrix
from replay.graph.types import Graph
from replay.program.expert_side import Experts, ExpertSide

FP8 = re.compile(r"fp8|e4m3|e5m2", re.IGNORECASE)
WEIGHT_GRADIENT = re.compile(r"wgrad|weight_grad|_acc\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GemmKind:
    """Which of the three GEMMs of a linear layer, at which precision."""

    weight_gradient: bool
    fp8: bool

    @property
    def precision(self) -> Precision:
        """Inputs at the data type; FP32 gradients accumulated in place (Megatron's main gradients)."""
        inputs = 1.0 if self.fp8 else 2.0
        return Precision(inputs, 4.0, accumulates=True) if self.weight_gradient else Precision(inputs, 2.0)


@dataclass(frozen=True, slots=True)
class Ratio:
    """New time over old, and its bracket.

    With a device: the tile model, or arithmetic and traffic not overlapped at all (their sum). Without: FLOPs
    alone or traffic alone.
    """

    value: float
    low: float
    high: float


def gemm_kinds(graph: Graph, ops: Bool, weight_gradient: Bool) -> dict[GemmKind, Bool]:
    """Ops by kind; ``weight_gradient`` as their names or sizes tell."""
    fp8 = np.array([*(bool(FP8.search(name)) for name in graph.names), False], np.bool_)[graph.name]
    kinds = {
        GemmKind(weight_gradient=weight, fp8=eight): ops & (weight_gradient == weight) & (fp8 == eight)
        for weight in (False, True)
        for eight in (False, True)
    }
    return {kind: mask for kind, mask in kinds.items() if mask.any()}


def named_weight_gradients(graph: Graph) -> Bool:
    """Ops whose names say that they are gradients of weights."""
    named = np.array([*(bool(WEIGHT_GRADIENT.search(name)) for name in graph.names), False], np.bool_)
    return np.asarray(named[graph.name])


def device_of(profile: HardwareProfile | None, kind: GemmKind) -> GradedEngine | None:
    """The device at the kind's precision, ``None`` where the profile does not say enough."""
    return None if profile is None else engine_of(profile, "fp8" if kind.fp8 else "bf16")


def grade_between(old: ExpertSide, new: ExpertSide, kind: GemmKind, device: GradedEngine | None) -> Grade:
    """How the ratio of both sides' times is known: ``scaled`` where all their GEMMs lie in a fit's range (R1).

    Else the weakest grade of any: extrapolated beyond the range, what the profile's numbers are without a fit, assumed
    without a device or sizes.
    """
    matrices = _matrices(old.experts)
    if device is None or not matrices or old.rows_per_expert is None or new.rows_per_expert is None:
        return Grade.ASSUMED
    rows = (old.rows_per_expert, new.rows_per_expert)
    sizes = np.array([_sizes(r, weight, kind) for r in rows for weight in matrices])
    weakest = Grade(int(device.grades(dict(zip("mnk", sizes.T, strict=True))).max()))
    return Grade.SCALED if weakest <= Grade.FITTED else weakest


def _sizes(rows: float, weight: ExpertMatrix, kind: GemmKind) -> tuple[float, float, float]:
    """m, n and k of one expert's GEMM."""
    m, k = (float(weight.n_in), rows) if kind.weight_gradient else (rows, float(weight.n_in))
    return m, float(weight.n_out), k


def ratio(old: ExpertSide, new: ExpertSide, kind: GemmKind, device: Engine | None, *, separate: bool) -> Ratio:
    """New over old time of the expert GEMMs of a rank, both weight matrices together.

    Without a device, tokens or sizes, FLOPs count: the ratio of the busiest rank's rows.
    """
    by_flops = new.load / old.load
    matrices = _matrices(old.experts)
    if not matrices or old.rows_per_expert is None or new.rows_per_expert is None:
        weights = new.local_experts / old.local_experts
        return Ratio(by_flops, min(by_flops, weights), max(by_flops, weights))
    if device is None:
        by_traffic = _traffic(new, matrices, kind) / _traffic(old, matrices, kind)
        return Ratio(by_flops, min(by_flops, by_traffic), max(by_flops, by_traffic))
    value = _time_ns(new, kind, device, separate=separate) / _time_ns(old, kind, device, separate=separate)
    apart = _apart_ns(new, matrices, kind, device) / _apart_ns(old, matrices, kind, device)
    return Ratio(value, min(value, apart), max(value, apart))


def work(side: ExpertSide) -> float | None:
    """FLOPs of one pass over both weight matrices, ``None`` where sizes are not known."""
    if side.rows is None:
        return None
    return sum(float(flops(side.rows, w.n_out, w.n_in)) for w in _matrices(side.experts)) or None


def _matrices(experts: Experts) -> tuple[ExpertMatrix, ...]:
    """(h, 2·ffn) and (ffn, h): gate and up in one, then down (SwiGLU)."""
    if experts.hidden is None or experts.ffn is None:
        return ()
    return ExpertMatrix(experts.hidden, 2 * experts.ffn), ExpertMatrix(experts.ffn, experts.hidden)


def _rows(side: ExpertSide) -> list[float]:
    return [side.rows_per_expert or 0.0] * side.local_experts


def _traffic(side: ExpertSide, matrices: tuple[ExpertMatrix, ...], kind: GemmKind) -> float:
    rows, total = _rows(side), 0.0
    for weight in matrices:
        m, k = (weight.n_in, rows) if kind.weight_gradient else (rows, weight.n_in)
        total += float(np.sum(traffic_nbytes(m, weight.n_out, k, kind.precision)))
    return total


def _apart_ns(side: ExpertSide, matrices: tuple[ExpertMatrix, ...], kind: GemmKind, device: Engine) -> float:
    arithmetic = (work(side) or 0.0) / device.flop_per_s
    return NS_PER_S * (arithmetic + _traffic(side, matrices, kind) / device.bytes_per_s)


def _time_ns(side: ExpertSide, kind: GemmKind, device: Engine, *, separate: bool) -> float:
    cost = grouped_gemm.separate_ns if separate else grouped_gemm.fused_ns
    if kind.weight_gradient:
        cost = grouped_gemm.weight_gradient_ns
    return sum(float(cost(_rows(side), weight, kind.precision, device)) for weight in _matrices(side.experts))
