"""Grouped GEMM: one matrix multiplication per expert, in one kernel or one kernel each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.core.columns import Float64
from replay.cost_model import Columns, CostModel, Values
from replay.costs import gemm
from replay.costs.engine import Engine
from replay.costs.gemm import Precision
from replay.costs.tiles import Problem


@dataclass(frozen=True, slots=True)
class ExpertMatrix:
    """Weight of one expert, (n_in, n_out) elements."""

    n_in: int
    n_out: int


def fused_ns(rows: npt.ArrayLike, weight: ExpertMatrix, precision: Precision, engine: Engine) -> Float64:
    """One kernel for all experts, whose tiles share the cores; last axis of ``rows``: experts.

    Activations move once per row, weights once per expert, so more experts at equal total rows read more weights, and
    every expert's last row tile is partly empty.
    """
    each = np.asarray(rows, dtype=np.float64)
    flat = each.reshape(-1, each.shape[-1])
    sizes = np.ones(len(flat))
    used = np.where(flat > 0, gemm.traffic_nbytes(flat, weight.n_out, weight.n_in, precision), 0.0)
    problem = Problem(
        rows=flat, copies=np.ones_like(flat), n=sizes * weight.n_out, k=sizes * weight.n_in,
        left=sizes * precision.input_nbytes, right=sizes * precision.weight_nbytes,
        output=sizes * precision.output_nbytes, nbytes=used.sum(axis=-1),
    )  # fmt: skip
    return gemm.problem_ns(problem, sizes * precision.scale_block, engine).reshape(each.shape[:-1])


def separate_ns(rows: npt.ArrayLike, weight: ExpertMatrix, precision: Precision, engine: Engine) -> Float64:
    """One kernel per expert, one after the other: the sum of their times, ``rows`` per expert (last axis)."""
    each = np.asarray(rows, dtype=np.float64)
    return np.asarray(gemm.time_ns(each, weight.n_out, weight.n_in, precision, engine).sum(axis=-1))


def weight_gradient_ns(rows: npt.ArrayLike, weight: ExpertMatrix, precision: Precision, engine: Engine) -> Float64:
    """Weight gradients, one kernel per expert: GEMM (n_in, n_out) with k = rows, ``rows`` per expert (last axis).

    The gradient of every expert is written (or read, added to and written) whatever its rows, so traffic grows with
    the number of experts.
    """
    each = np.asarray(rows, dtype=np.float64)
    return np.asarray(gemm.time_ns(weight.n_in, weight.n_out, each, precision, engine).sum(axis=-1))


def columns_ns(engine: Engine, columns: Columns) -> Float64:
    """Time of grouped GEMMs from size columns, ns: ``experts`` products of m x n x k in one kernel.

    With ``backward_weight`` the sum runs over m: (k, n) results for each expert.
    """
    m, n, k = columns["m"], columns["n"], columns["k"]
    weight = np.nan_to_num(columns.get("backward_weight", np.zeros_like(m))) > 0
    swapped = {**columns, "m": np.where(weight, k, m), "n": n, "k": np.where(weight, m, k)}
    return gemm.columns_ns(engine, {**swapped, "batch": columns["experts"]})


def _predict(values: Values, columns: Columns) -> Float64:
    return columns_ns(Engine.of(values), columns)


COST_MODELS = (
    CostModel(
        name="grouped_gemm",
        ops=("grouped_gemm",),
        needs=("experts", "m", "n", "k", "left_nbytes", "right_nbytes", "output_nbytes"),
        parameters=gemm.PARAMETERS,
        predict=_predict,
        calibrated=("experts", "m", "n", "k"),
    ),
)
