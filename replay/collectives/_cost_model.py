"""The cost model of an algorithm on one tier of links: a fixed cost, and two protocols of latency and bandwidth.

t = floor + min(steps · latency + sent / bandwidth, steps · a · latency + sent / (b · bandwidth)), a, b < 1: the second
way is the protocol of small messages, said as shares of the first so that both stay in order. At most five parameters
an algorithm and tier, whatever the number of group sizes.
"""

from __future__ import annotations

from collections.abc import Callable

from replay.collectives._link import Link, Protocol, Sizes
from replay.core.columns import Float64
from replay.cost_model import Columns, CostModel, ParameterSpec, Values, every_other_size, largest_decade, largest_value
from replay.trace import CollectiveKind

Steps = Callable[[Float64], Float64]
Sent = Callable[[Sizes, Float64], Float64]

PARAMETERS = (  # the last ones are held first where samples cannot tell them
    ParameterSpec("latency_ns", "ns", 5e3, 1.0, 1e7, optional=True),
    ParameterSpec("bytes_per_s", "B/s", 5e10, 1e6, 1e13),
    ParameterSpec("floor_ns", "ns", 2e3, 1.0, 1e7, optional=True),
    ParameterSpec("small_latency_ratio", "1", 0.1, 1e-3, 1.0, optional=True, off=1.0),
    ParameterSpec("small_bandwidth_ratio", "1", 0.1, 1e-3, 1.0, optional=True),
)


def link_of(values: Values) -> Link:
    """The link that fitted values describe; a second protocol that starts no sooner than the first is none."""
    latency, bandwidth = values["latency_ns"], values["bytes_per_s"]
    if values["small_latency_ratio"] >= 1.0:
        return Link(bandwidth, latency, values["floor_ns"])
    small = Protocol(bandwidth * values["small_bandwidth_ratio"], latency * values["small_latency_ratio"])
    return Link(bandwidth, latency, values["floor_ns"], (small,))


def cost_model(name: str, kinds: tuple[CollectiveKind, ...], steps: Steps, sent_nbytes: Sent) -> CostModel:
    """The cost model of an algorithm, fitted apart for every collective and tier."""

    def predict(values: Values, columns: Columns) -> Float64:
        ranks = columns["ranks"]
        return link_of(values).time_ns(sent_nbytes(columns["nbytes"], ranks), steps(ranks))

    return CostModel(
        name,
        tuple(kind.name.lower() for kind in kinds),
        ("nbytes", "ranks"),
        PARAMETERS,
        predict,
        by=("op", "tier"),
        calibrated=("nbytes", "ranks"),
        holdouts=(every_other_size("nbytes"), largest_decade("nbytes"), largest_value("ranks")),
    )
