"""Dispatch and combine kernels for training (DeepEP "normal"): one copy a rank, moved by a chosen number of cores.

t = floor + |(tokens · bytes · copies / link, tokens · (bytes · (own + copies) / core + token) / cores)|_q

``copies`` is the expected number of distinct ranks of a token, ``own`` what a token costs apart from its copies, in
copies, ``token`` what handling one costs whatever its size. Dispatch and combine have their own parameters: they move
other data types and the combine adds up.
"""

from __future__ import annotations

import numpy as np

from replay.collectives import deduplicating
from replay.collectives._exchange_kernels import (
    CORE,
    FLOOR,
    LINK,
    SHARPNESS,
    distinct_ranks,
    link_and_cores_ns,
)
from replay.core.columns import Float64
from replay.core.units import NS_PER_S
from replay.cost_model import Columns, CostModel, ParameterSpec, Values, largest_decade

KINDS = deduplicating.KINDS
steps = deduplicating.steps
sent_nbytes = deduplicating.sent_nbytes
time_ns = deduplicating.time_ns  # links alone


def predict(values: Values, columns: Columns) -> Float64:
    """The module's equation; columns tokens, hidden, topk, experts, ranks, sms; rates count a byte an element."""
    payload = columns["tokens"] * columns["hidden"]
    copies = distinct_ranks(columns)
    moved = payload * (values["own_copies"] + copies) * NS_PER_S / values["core_bytes_per_s"]
    cores_ns = (moved + columns["tokens"] * values["token_ns"]) / columns["sms"]
    over_link = link_and_cores_ns(payload * copies, values["link_bytes_per_s"], cores_ns, values["sharpness"])
    return np.asarray(values["floor_ns"] + over_link)


COST_MODELS = (
    CostModel(
        "deduplicating_kernel",
        ("dispatch", "combine"),
        ("tokens", "hidden", "topk", "experts", "ranks", "sms"),
        (
            FLOOR,
            LINK,
            CORE,
            ParameterSpec("own_copies", "1", 1.0, 1e-3, 1e2, optional=True),
            ParameterSpec("token_ns", "ns", 50.0, 1e-2, 1e5, optional=True),
            SHARPNESS,
        ),
        predict,
        by=("op", "variant"),
        calibrated=("tokens", "hidden", "topk", "experts", "ranks", "sms"),
        holdouts=(largest_decade("tokens"),),
    ),
)
