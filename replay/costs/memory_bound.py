"""Ops that only move data: casts, permutations, activations, norms, optimizer steps."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.cost_model import Columns, CostModel, ParameterSpec, Values, largest_decade


def cached_ns(values: Values, columns: Columns) -> Float64:
    """floor + bytes · (hit / cache rate + (1 - hit) / memory rate), ns; hit = 1 / (1 + (bytes / cache size)²).

    Operands that fit into the cache, just written by the op before, are not read from memory.
    """
    moved = columns["read_nbytes"] + columns["written_nbytes"]
    hit = 1.0 / (1.0 + (moved / values["l2_nbytes"]) ** 2)
    each = hit / values["l2_bytes_per_s"] + (1.0 - hit) / values["bytes_per_s"]
    return np.asarray(values["floor_ns"] + NS_PER_S * moved * each)


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
