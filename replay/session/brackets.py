"""How far a prediction moves when what is uncertain about durations moves, all of it together."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Float64, Int64
from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind
from replay.program.retiming import Retiming
from replay.session.interval import GRADE_WIDTH, Part, bracket
from replay.simulate.engine import plan, simulate


def retiming_part(target: Graph, retiming: Retiming, origin: Int64) -> Part:
    """Re-timed durations at both ends of their bracket, widened by their grade's share of the change.

    ``origin`` is, per op of ``target``, the op of the source graph that ``retiming`` is about.
    """
    width = np.array([GRADE_WIDTH[grade] for grade in Grade])[retiming.grade] * np.abs(retiming.factor - 1)
    ends = (np.maximum(retiming.low - width, 0.0), retiming.high + width)
    known = retiming.factor > 0
    relative = [np.where(known, end / np.where(known, retiming.factor, 1.0), 1.0)[origin] for end in ends]
    return _part(target, relative, "re-timed durations at the ends of what is known about them")


def transfer_part(source: Graph, target: Graph, origin: Int64, ratio: float) -> Part:
    """Transfers at both ends of their bracket (R3), in the source and in the target, so what is common cancels."""
    comms, duration = source.comms, np.maximum(source.duration_ns, 1)
    moving = (source.kind == OpKind.TRANSFER) & (source.comm >= 0)
    ends = []
    for bound in (comms.transfer_low_ns, comms.transfer_high_ns):
        factor = np.ones(len(source))
        factor[moving] = bound[source.comm[moving]] / duration[moving]
        ends.append(factor)
    ratios = [_step(target, end[origin]) / _step(source, end) for end in ends]
    return bracket(ratio, (min(ratios), max(ratios)), "transfers seen from some of their ranks only")


def _part(graph: Graph, factors: list[Float64], basis: str) -> Part:
    low, high = (_step(graph, factor) for factor in factors)
    return bracket(_step(graph, np.ones(len(graph))), (low, high), basis)


def _step(graph: Graph, factor: Float64) -> float:
    """Simulated step, ns, with every duration multiplied."""
    edited = graph.with_durations(np.rint(graph.duration_ns * factor).astype(np.int64))
    return float(simulate(edited, residuals=True, plan=plan(edited)).step_ns)
