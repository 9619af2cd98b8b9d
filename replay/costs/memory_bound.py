"""Ops that only move data: casts, permutations, activations, norms, optimizer steps.

The byte counts are (read, written), every operand once, as fused kernels of Transformer Engine and Megatron move them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.cost_model import Columns, CostModel, ParameterSpec, Values, largest_decade
from replay.costs.roofline import Device
from replay.costs.roofline import time_ns as roofline_ns

Traffic = tuple[float, float]
"""(read, written) bytes."""


def time_ns(read_nbytes: npt.ArrayLike, written_nbytes: npt.ArrayLike, device: Device) -> Float64:
    """floor + (read + written) / bandwidth, ns."""
    moved = np.asarray(read_nbytes, np.float64) + np.asarray(written_nbytes, np.float64)
    return roofline_ns(0.0, moved, device)


def cached_ns(values: Values, columns: Columns) -> Float64:
    """floor + bytes · (hit / cache rate + (1 - hit) / memory rate), ns; hit = 1 / (1 + (bytes / cache size)²).

    Operands that fit into the cache, just written by the op before, are not read from memory.
    """
    moved = columns["read_nbytes"] + columns["written_nbytes"]
    hit = 1.0 / (1.0 + (moved / values["l2_nbytes"]) ** 2)
    each = hit / values["l2_bytes_per_s"] + (1.0 - hit) / values["bytes_per_s"]
    return np.asarray(values["floor_ns"] + NS_PER_S * moved * each)


def norm(tokens: float, hidden: float, nbytes: float = 2.0) -> Traffic:
    """RMSNorm or LayerNorm: a row in, a row out."""
    return tokens * hidden * nbytes, tokens * hidden * nbytes


def gated_activation(tokens: float, inner: float, nbytes: float = 2.0) -> Traffic:
    """SwiGLU: gate and up in, their product out."""
    return 2.0 * tokens * inner * nbytes, tokens * inner * nbytes


def permute(tokens: float, topk: float, hidden: float, nbytes: float = 2.0) -> Traffic:
    """Rows of tokens to the order of experts: every token read once, written top-k times."""
    return tokens * hidden * nbytes, tokens * topk * hidden * nbytes


def unpermute(tokens: float, topk: float, hidden: float, nbytes: float = 2.0) -> Traffic:
    """Weighted sum of a token's top-k rows: all read, one written."""
    return tokens * topk * hidden * nbytes, tokens * hidden * nbytes


def adam(parameters: float, gradient_nbytes: float = 4.0, weight_nbytes: float = 2.0) -> Traffic:
    """Adam in FP32: gradient, master weight and two moments in, master weight, moments and model weight out.

    28 + weight bytes a parameter (Rajbhandari et al. 2020, "ZeRO", section 3.1 counts the same states).
    """
    return parameters * (gradient_nbytes + 12.0), parameters * (12.0 + weight_nbytes)


COST_MODELS = (
    CostModel(
        name="memory",
        ops=("memory",),
        needs=("read_nbytes", "written_nbytes"),
        parameters=(
            ParameterSpec("floor_ns", "ns", 3000.0, 1.0, 1e6, optional=True),
            ParameterSpec("bytes_per_s", "B/s", 2e12, 1e9, 1e14, profile="hbm_bytes_per_s"),
            ParameterSpec("l2_nbytes", "B", 4e7, 1e5, 1e10, given=True, profile="l2_nbytes"),
            ParameterSpec("l2_bytes_per_s", "B/s", 5e12, 1e9, 1e15, optional=True),
        ),
        predict=cached_ns,
        by=("op", "variant"),
        calibrated=("read_nbytes", "written_nbytes"),
        holdouts=(largest_decade("read_nbytes"),),
    ),
)
