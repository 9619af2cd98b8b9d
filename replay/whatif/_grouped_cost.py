"""What grouped GEMMs cost by the number of experts and the rows of each, as the step's own GEMMs show it.

    t = a · E + u(r) · F        E experts on a rank, r rows each, F FLOPs in all

``a``, what an expert costs whatever its rows (start-up, part-filled tiles, its pointers), comes from grouped GEMMs of
different FLOPs on equal experts; ``u``, time per FLOP, from the grouped GEMMs at their rows and the dense ones at
theirs. With more rows than were measured, what grouped GEMMs take longer than dense ones is each expert's own, so it
falls as 1 / r; with fewer, time per FLOP goes on as it rose from the dense rows, straight in log r: every halving costs
the same. Where the step shows no dense GEMM of more rows, a halving costs 11 % (``assumed``): the mean of what
DeepGEMM's README gives for masked grouped GEMMs on H800 (1,233, 1,040, 932 and 925, 916, 815 TFLOP/s at 1,024, 512, 256
rows a group). A weight gradient's excess over that is traffic of its expert's weights, and scales with E.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Float64
from replay.program.gemm_shapes import GemmShapes

_NEAR = 1.25  # rows that differ by less are the same rows
_ASSUMED_SLOPE = 0.11  # more time per FLOP for half the rows
_LARGEST_OVERHEAD = 0.5  # of the shortest grouped GEMM: more cannot be told from a slow kernel


@dataclass(frozen=True, slots=True)
class GroupedCost:
    """Time of a grouped GEMM, as measured at ``rows`` rows an expert."""

    expert_ns: float
    rows: float
    ns_per_flop: float
    dense_ns_per_flop: float
    ns_per_halving: float  # more time per FLOP for half the rows
    assumed: bool = False  # the step shows GEMMs of one number of rows only

    def time_ns(self, experts: Float64, flops: Float64, rows: Float64) -> Float64:
        """a · E + u(r) · F; fewer rows never take an expert less time than a share of its FLOPs would save."""
        share = np.maximum(rows, 1.0) / self.rows
        more = self.dense_ns_per_flop + (self.ns_per_flop - self.dense_ns_per_flop) / share
        fewer = np.minimum(self.ns_per_flop - self.ns_per_halving * np.log2(share), self.ns_per_flop / share)
        return np.asarray(self.expert_ns * experts + np.where(share > 1, more, fewer) * flops)


def learn(duration_ns: Float64, shapes: GemmShapes, grouped: Bool, dense: Bool) -> GroupedCost | None:
    """The cost that ``grouped`` and ``dense`` GEMMs of known shape show; ``None`` without grouped ones."""
    known = grouped & (shapes.flops > 0) & (shapes.experts > 0)
    if not known.any():
        return None
    time, flops, experts = duration_ns[known], shapes.flops[known], shapes.experts[known]
    overhead = _overhead_ns(time, flops, experts)
    rows = float(np.median(shapes.rows[known] / experts))
    rate = float((time - overhead * experts).sum() / flops.sum())
    larger = dense & (shapes.flops > 0) & (shapes.rows > rows * _NEAR)
    if not larger.any():
        return GroupedCost(overhead, rows, rate, rate, _ASSUMED_SLOPE * rate, assumed=True)
    nearest = larger & (shapes.rows <= _NEAR * shapes.rows[larger].min())
    beside = min(float(duration_ns[nearest].sum() / shapes.flops[nearest].sum()), rate)
    halvings = np.log2(float(shapes.rows[nearest].mean()) / rows)
    return GroupedCost(overhead, rows, rate, beside, (rate - beside) / halvings)


def _overhead_ns(time: Float64, flops: Float64, experts: Float64) -> float:
    """Least squares of t / F = a · E / F + u, relative to t, over the shapes; 0 where all have the FLOPs of one."""
    each = flops / experts
    shapes = np.unique(each)
    if shapes[-1] < _NEAR * shapes[0]:
        return 0.0
    weight = 1.0 / np.maximum(time, 1.0)
    design = np.stack([experts, flops], axis=1) * weight[:, None]
    overhead, _ = np.linalg.lstsq(design, np.ones(len(time)), rcond=None)[0]
    return float(np.clip(overhead, 0.0, _LARGEST_OVERHEAD * (time / experts).min()))
