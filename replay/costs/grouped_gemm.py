"""Grouped GEMM: one matrix multiplication per expert, in one kernel or one kernel each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.costs import gemm
from replay.costs.gemm import Precision
from replay.costs.roofline import Device
from replay.costs.roofline import time_ns as roofline_ns


@dataclass(frozen=True, slots=True)
class ExpertMatrix:
    """Weight of one expert, (n_in, n_out) elements."""

    n_in: int
    n_out: int


def fused_ns(rows: npt.ArrayLike, weight: ExpertMatrix, precision: Precision, device: Device) -> Float64:
    """One kernel for all experts: floor + max(sum flops / peak, sum bytes / bandwidth); last axis of ``rows``: experts.

    Activations move once per row, weights once per expert, so more experts at equal total rows read more weights.
    """
    each = np.asarray(rows, dtype=np.float64)
    work = gemm.flops(each, weight.n_out, weight.n_in).sum(axis=-1)
    traffic = gemm.traffic_nbytes(each, weight.n_out, weight.n_in, precision).sum(axis=-1)
    return roofline_ns(work, traffic, device)


def separate_ns(rows: npt.ArrayLike, weight: ExpertMatrix, precision: Precision, device: Device) -> Float64:
    """One kernel per expert, one after the other: the sum of their times, ``rows`` per expert (last axis)."""
    each = np.asarray(rows, dtype=np.float64)
    return np.asarray(gemm.time_ns(each, weight.n_out, weight.n_in, precision, device).sum(axis=-1))


def weight_gradient_ns(rows: npt.ArrayLike, weight: ExpertMatrix, precision: Precision, device: Device) -> Float64:
    """Weight gradients, one kernel per expert: GEMM (n_in, n_out) with k = rows, ``rows`` per expert (last axis).

    The gradient of every expert is written (or read, added to and written) whatever its rows, so traffic grows with
    the number of experts.
    """
    each = np.asarray(rows, dtype=np.float64)
    return np.asarray(gemm.time_ns(weight.n_in, weight.n_out, each, precision, device).sum(axis=-1))
