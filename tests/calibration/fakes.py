"""Samples made up for tests, and a cost model whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.core.columns import Float64
from replay.cost_model import (
    Columns,
    CostModel,
    HoldOut,
    ParameterSpec,
    Values,
    every_other_size,
    largest_decade,
)
from replay.samples import Samples, Words

LATENCY_NS, BYTES_PER_S = 20_000.0, 150e9


def link_ns(values: Values, columns: Columns) -> Float64:
    """latency + bytes / bandwidth."""
    return np.asarray(values["latency_ns"] + columns["nbytes"] * 1e9 / values["bytes_per_s"])


def link_model(*, optional: bool = False, holdouts: Sequence[HoldOut] | None = None) -> CostModel:
    """Two parameters; ``optional`` marks the latency."""
    return CostModel(
        "link",
        ("all_reduce",),
        ("nbytes",),
        (
            ParameterSpec("latency_ns", "ns", 1e4, 1.0, 1e8, optional=optional),
            ParameterSpec("bytes_per_s", "B/s", 1e10, 1e6, 1e13),
        ),
        link_ns,
        by=("op",),
        calibrated=("nbytes",),
        holdouts=(largest_decade("nbytes"), every_other_size("nbytes")) if holdouts is None else tuple(holdouts),
    )


def samples(nbytes: Sequence[float] | Float64, time_ns: Float64, op: str = "all_reduce", **words: str) -> Samples:
    """One row per size, lines counted from 1."""
    n = len(time_ns)
    columns = {name: Words.constant(words.get(name, ""), n) for name in ("dtype", "device", "software", "variant")}
    return Samples(
        time_ns=np.asarray(time_ns, dtype=np.float64),
        spread_ns=np.full(n, np.nan),
        repeats=np.full(n, 20),
        line=np.arange(1, n + 1),
        op=Words.constant(op, n),
        source=Words.constant(words.get("source", "made_up.log"), n),
        sizes={"nbytes": np.asarray(nbytes, dtype=np.float64)},
        **columns,
    )


def powers_of_two(repeats: int = 1) -> Float64:
    """1 KiB to 8 GiB."""
    return np.tile(2.0 ** np.arange(10, 34), repeats)
