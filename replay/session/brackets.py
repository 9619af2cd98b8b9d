"""How far a prediction moves when what is uncertain about durations moves, all of it together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.core.columns import Bool, Float64, Int64
from replay.core.evidence import GRADE_WIDTH, Grade
from replay.graph.types import Graph, OpKind
from replay.program.retiming import Retiming
from replay.session import gate
from replay.session.interval import Part, bracket
from replay.simulate.engine import plan, simulate

HALVINGS = 8  # of the way to the end of a bracket
FOLLOWINGS = 5  # rounds in which the lateness of unseen ranks follows the step


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
    """Transfers seen from some of their ranks only, towards both ends of their bracket (R3).

    Source and target move together, so what is common cancels. Where all ranks were seen, the waiting is known. The
    bracket of one transfer reaches up to its whole kernel, waiting included; all of them at that end would contradict
    the step that was measured, so an end is approached only as far as the source stays reproduced.
    """
    comms, duration = source.comms, np.maximum(source.duration_ns, 1)
    partly = (comms.seen < comms.size) | (comms.size < 0)
    moving = (source.kind == OpKind.TRANSFER) & (source.comm >= 0)
    moving[moving] = partly[source.comm[moving]]
    as_it_is = _step(source, np.ones(len(source)))
    ratios = []
    for bound in (comms.transfer_low_ns, comms.transfer_high_ns):
        change = np.zeros(len(source))
        change[moving] = bound[source.comm[moving]] / duration[moving] - 1
        for _ in range(HALVINGS):
            if abs(_step(source, 1 + change) / as_it_is - 1) <= gate.LIMIT_PCT / 100:
                break
            change /= 2
        ratios.append(_step(target, (1 + change)[origin]) / _step(source, 1 + change))
    return bracket(
        ratio,
        (min(ratios), max(ratios)),
        "transfers not seen from all of their ranks, as far as the measured step allows",
        "transfers",
    )


def lateness_part(source: Graph, target: Graph, source_step_ns: int, ratio: float) -> Part:
    """Ranks outside of the input as late as they were, or faster and slower with those inside.

    The prediction keeps what was waited for unseen members. Were they like the ranks given, a rank's whole lateness
    would follow the step: ratio' = step(lateness x ratio' x L(source) / L(target)) / source step with L the lateness of
    a rank, found by iteration (each round's change is a part of the one before, because L(source) is a part of the
    step). A target with twice as many micro-batches waits twice as often, each time for half as much of its step.
    """
    edges, late = target.edges, _late(target)
    of_rank = _mean_lateness_ns(target)
    often = _mean_lateness_ns(source) / of_rank if of_rank else 1.0
    following = ratio
    for _ in range(FOLLOWINGS if late.any() else 0):
        lag = np.where(late, np.rint(edges.lag_ns * following * often).astype(np.int64), edges.lag_ns)
        moved = replace(target, edges=replace(edges, lag_ns=lag))
        following = simulate(moved, residuals=True, plan=plan(moved)).step_ns / source_step_ns
    basis = "ranks not in the input as late as they were, or changing with the others"
    return bracket(ratio, (ratio, following), basis, "lateness")


def _late(graph: Graph) -> Bool:
    """Edges that hold a transfer back for members that were not seen."""
    edges = graph.edges
    late = (graph.kind[edges.source] == OpKind.ARRIVAL) & (graph.kind[edges.target] == OpKind.TRANSFER)
    return np.asarray(late & (edges.lag_ns > 0))


def _mean_lateness_ns(graph: Graph) -> float:
    """Lateness of unseen members over all transfers, per rank of the graph."""
    held, late = np.zeros(len(graph), np.int64), _late(graph)
    np.maximum.at(held, graph.edges.target[late], graph.edges.lag_ns[late])  # every member's arrival has an edge
    return float(held.sum()) / max(len(np.unique(graph.rank)), 1)


def _part(graph: Graph, factors: list[Float64], basis: str) -> Part:
    low, high = (_step(graph, factor) for factor in factors)
    return bracket(_step(graph, np.ones(len(graph))), (low, high), basis, "retiming")


def _step(graph: Graph, factor: Float64) -> float:
    """Simulated step, ns, with every duration multiplied."""
    edited = graph.with_durations(np.rint(graph.duration_ns * factor).astype(np.int64))
    return float(simulate(edited, residuals=True, plan=plan(edited)).step_ns)
