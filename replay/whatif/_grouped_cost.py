"""What grouped GEMMs cost by the number of experts and the rows of each, as the step's own GEMMs show it.

    t = a · E + u(r) · F        E experts on a rank, r rows each, F FLOPs in all

``a``, what an expert costs whatever its rows (start-up, part-filled tiles, its pointers), comes from grouped GEMMs of
different FLOPs on equal experts; ``u``, time per FLOP, from the grouped GEMMs at their rows and the dense ones at
theirs. Between the two, and below, time per FLOP is taken to be straight in log r: every halving of the rows costs the
same. A weight gradient's excess over that is traffic of its expert's weights, and scales with E.
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
    """Time of a grouped GEMM; ``log_rows`` ascending, with the time per FLOP at each."""

    expert_ns: float
    log_rows: Float64
    ns_per_flop: Float64
    assumed: bool = False  # the step shows GEMMs of one number of rows only

    def time_ns(self, experts: Float64, flops: Float64, rows: Float64) -> Float64:
        """a · E + u(r) · F."""
        return np.asarray(self.expert_ns * experts + self._per_flop(np.log2(np.maximum(rows, 1.0))) * flops)

    def _per_flop(self, log_rows: Float64) -> Float64:
        """Straight between and below the rows seen, level above; fewer rows never take less time than before."""
        inside = np.interp(log_rows, self.log_rows, self.ns_per_flop)
        below = np.maximum(self.log_rows[0] - log_rows, 0.0)
        slope = -np.diff(self.ns_per_flop[:2]) / np.diff(self.log_rows[:2]) if len(self.log_rows) > 1 else np.zeros(1)
        extended = self.ns_per_flop[0] + max(float(slope[0]), 0.0) * below
        return np.asarray(np.where(below > 0, np.minimum(extended, self.ns_per_flop[0] * 2.0**below), inside))


def learn(duration_ns: Float64, shapes: GemmShapes, grouped: Bool, dense: Bool) -> GroupedCost | None:
    """The cost that ``grouped`` and ``dense`` GEMMs of known shape show; ``None`` without grouped ones."""
    known = grouped & (shapes.flops > 0) & (shapes.experts > 0)
    if not known.any():
        return None
    time, flops, experts = duration_ns[known], shapes.flops[known], shapes.experts[known]
    overhead = _overhead_ns(time, flops, experts)
    rows = float(np.median(shapes.rows[known] / experts))
    points = {rows: float((time - overhead * experts).sum() / flops.sum())}
    beside = dense & (shapes.flops > 0)
    for size in np.unique(shapes.rows[beside]).tolist():
        if size > rows * _NEAR:
            same = beside & (shapes.rows == size)
            points[size] = float(duration_ns[same].sum() / shapes.flops[same].sum())
    assumed = len(points) == 1
    if assumed:
        points = {rows / 2: (1 + _ASSUMED_SLOPE) * points[rows], **points}
    order = np.array(sorted(points))
    falling = np.minimum.accumulate([points[size] for size in order.tolist()])
    return GroupedCost(overhead, np.log2(order), falling, assumed)


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
