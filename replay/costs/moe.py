"""Expert MLP of one layer on the busiest rank: gate and up, activation, down, and the sum over top-k.

time = floor + GEMM(2·f/tp, h) + GEMM(h, f/tp) + moved bytes / bandwidth, both grouped over the experts of the rank
(:mod:`replay.costs.tiles`). Moved: the activation reads 2·f and writes f, the sum reads h for every routed row and
writes h for every token; kernels that keep a place for rows of other ranks' experts move those too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.cost_model import Columns, CostModel, ParameterSpec, Values, above_quantile, largest_decade
from replay.costs import gemm
from replay.costs.engine import Engine
from replay.costs.expert_loads import GROUPS, Routing, expert_rows
from replay.costs.tiles import Problem

_ROUTING = ("tokens", "topk", "experts", "moe_ep", "skew")
_GATED = 2.0


@dataclass(frozen=True, slots=True)
class Moved:
    """Memory passes around the GEMMs: ``passes`` over the bytes named above, ``idle_share`` of rows of other ranks."""

    passes: float
    idle_share: float


def with_rows(columns: Columns) -> dict[str, Float64]:
    """The columns, and (samples, groups) ``expert_rows`` and ``expert_copies`` of the experts of the busiest rank."""
    if "expert_rows" in columns:
        return dict(columns)
    table = np.stack([columns[name] for name in _ROUTING], axis=1)
    distinct, index = np.unique(table, axis=0, return_inverse=True)
    found = [expert_rows(Routing(*map(float, row))) for row in distinct]
    rows = np.array([rows for rows, _ in found]).reshape(-1, GROUPS)[index.reshape(-1)]
    copies = np.array([copies for _, copies in found]).reshape(-1, GROUPS)[index.reshape(-1)]
    return {**columns, "expert_rows": rows, "expert_copies": copies}


def columns_ns(engine: Engine, moved: Moved, columns: Columns) -> Float64:
    """Time of the expert MLP from size columns (:mod:`replay.samples`), ns."""
    known = with_rows(columns)
    inner = known["inter"] / known["moe_tp"]
    both = replace(engine, floor_ns=0.0)
    block = np.nan_to_num(known.get("scale_block", np.zeros_like(inner)))
    up = gemm.problem_ns(_problem(known, _GATED * inner, known["hidden"]), block, both)
    down = gemm.problem_ns(_problem(known, known["hidden"], inner), block, both)
    local = (known["expert_rows"] * known["expert_copies"]).sum(axis=-1)
    routed = local + moved.idle_share * np.maximum(known["tokens"] * known["topk"] - local, 0.0)
    elements = routed * (3.0 * inner + known["hidden"]) + known["tokens"] * known["hidden"]
    passes = NS_PER_S * moved.passes * gemm.SIXTEEN_BITS * elements / engine.bytes_per_s
    return np.asarray(engine.floor_ns + up + down + passes)


def _problem(columns: Columns, n: Float64, k: Float64) -> Problem:
    """One grouped GEMM over the experts used; each reads its weights once."""
    rows, copies = columns["expert_rows"], columns["expert_copies"]
    left, right = columns["left_nbytes"], columns["right_nbytes"]
    output = np.full_like(n, gemm.SIXTEEN_BITS)
    used = ((rows > 0) * copies).sum(axis=-1)
    total = (rows * copies).sum(axis=-1)
    nbytes = total * (left * k + output * n) + used * right * n * k
    return Problem(rows, copies, n, k, left, right, output, nbytes)


def _predict(values: Values, columns: Columns) -> Float64:
    return columns_ns(Engine.of(values), Moved(values["passes"], values["idle_share"]), columns)


_UNUSED = ("split_ns", "reduce_ns", "dot_step_ns", "vector_flop_per_s", "cast_ns")

PARAMETERS = (
    *(replace(spec, optional=not spec.given) for spec in gemm.PARAMETERS if spec.name not in _UNUSED),
    ParameterSpec("passes", "1", 1.0, 0.01, 20.0, optional=True),
    ParameterSpec("idle_share", "1", 0.3, 0.0, 2.0, log=False, optional=True),
)

COST_MODELS = (
    CostModel(
        name="moe",
        ops=("moe",),
        needs=(*_ROUTING, "hidden", "inter", "moe_tp", "left_nbytes", "right_nbytes"),
        parameters=PARAMETERS,
        predict=_predict,
        by=("op", "dtype", "variant"),
        calibrated=("tokens", "hidden", "inter", "experts", "moe_tp", "moe_ep"),
        holdouts=(
            largest_decade("tokens"),
            above_quantile("hidden x inter", lambda columns: columns["hidden"] * columns["inter"] / columns["moe_tp"]),
        ),
        prepare=with_rows,
    ),
)
