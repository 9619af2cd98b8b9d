"""How the step moves when one thing is 10 % slower or faster: what a prediction hangs on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from replay.core.units import percent
from replay.graph.types import Graph, OpKind
from replay.simulate.engine import Plan, plan, simulate
from replay.whatif import link, scale
from replay.whatif._edit import scaled
from replay.whatif._select import classes_in

_LABELS = {"@other": "other kernels time"}
_FACTORS = (0.9, 1.1)


@dataclass(frozen=True, slots=True)
class Effect:
    """The step with one parameter times ``factor``, against the step as it is."""

    parameter: str
    factor: float
    step_change_ns: int
    step_change_pct: float


def sensitivities(graph: Graph, *, residuals: bool = True, order: Plan | None = None) -> list[Effect]:
    """Effect of ±10 % on each link's bandwidth, the host, each kernel class and the load of the busiest rank.

    Two entries a parameter; the parameter that moves the step most comes first. ``order`` is the plan of ``graph``.
    """
    order = plan(graph) if order is None else order
    base = simulate(graph, residuals=residuals, plan=order).step_ns

    def effect(parameter: str, factor: float, edited: Graph) -> Effect:
        change = simulate(edited, residuals=residuals, plan=order).step_ns - base
        return Effect(parameter, factor, change, percent(change, base))

    pairs = [
        [effect(parameter, factor, edited) for factor, edited in zip(_FACTORS, edits, strict=True)]
        for parameter, edits in _parameters(graph)
    ]
    pairs.sort(key=lambda pair: -max(abs(entry.step_change_ns) for entry in pair))
    return [entry for pair in pairs for entry in pair]


def _parameters(graph: Graph) -> Iterator[tuple[str, list[Graph]]]:
    """Name of each parameter, and the graph with it at each of ``_FACTORS``."""
    for tier in link.targets(graph):
        if tier in link.KINDS:
            yield f"{tier} link bandwidth", [link.apply(graph, tier, factor) for factor in _FACTORS]
    present = classes_in(graph)
    named = [name for name in ("@gemm", "@attention") if name in present]
    for name in ("@host", *named, "@other" if named else "@compute", "@copy"):
        if name in present:
            yield _LABELS.get(name, f"{name[1:]} time"), [scale.apply(graph, name, factor) for factor in _FACTORS]
    if len(np.unique(graph.rank)) > 1 and "@compute" in present:
        compute = graph.kind == OpKind.COMPUTE
        busiest = int(np.bincount(graph.rank[compute], weights=graph.duration_ns[compute]).argmax())
        load = compute & (graph.rank == busiest)
        yield f"load of rank {busiest}", [scaled(graph, load, factor) for factor in _FACTORS]
