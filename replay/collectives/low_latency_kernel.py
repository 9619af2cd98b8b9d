"""Dispatch and combine kernels for decoding (DeepEP "low latency"): a copy an expert, received by workers per expert.

t = floor + experts · expert + |(tokens · bytes · topk / link, tokens · bytes · topk / (experts · core))|_q

Every expert's tokens are unpacked by a worker of their own, so few experts leave most of the device idle, and every
expert's counter is polled even when little arrives.
"""

from __future__ import annotations

import numpy as np

from replay.collectives import deduplicating
from replay.collectives._exchange_kernels import CORE, FLOOR, LINK, SHARPNESS, link_and_cores_ns
from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.cost_model import Columns, CostModel, ParameterSpec, Values, largest_decade

KINDS = deduplicating.KINDS
steps = deduplicating.steps
sent_nbytes = deduplicating.sent_nbytes
time_ns = deduplicating.time_ns  # links alone


def predict(values: Values, columns: Columns) -> Float64:
    """The module's equation; columns tokens, hidden, topk, experts; rates count a byte an element."""
    moved = columns["tokens"] * columns["hidden"] * columns["topk"]
    cores_ns = moved * NS_PER_S / (values["core_bytes_per_s"] * columns["experts"])
    over_link = link_and_cores_ns(moved, values["link_bytes_per_s"], cores_ns, values["sharpness"])
    return np.asarray(values["floor_ns"] + columns["experts"] * values["expert_ns"] + over_link)


COST_MODELS = (
    CostModel(
        "low_latency_kernel",
        ("dispatch", "combine"),
        ("tokens", "hidden", "topk", "experts"),
        (FLOOR, LINK, CORE, ParameterSpec("expert_ns", "ns", 10.0, 1e-2, 1e5, optional=True), SHARPNESS),
        predict,
        by=("op", "variant"),
        calibrated=("tokens", "hidden", "topk", "experts"),
        holdouts=(largest_decade("tokens"),),
    ),
)
