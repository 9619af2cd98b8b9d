"""How well the baseline is reproduced (R5), and what the measurement looks like as a timeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.units import percent
from replay.graph.types import DEVICE_OPS, Graph
from replay.report.critical_path import Part, critical_path
from replay.report.members import transfer_of
from replay.simulate.timeline import Timeline


@dataclass(frozen=True, slots=True)
class StartError:
    """95th percentile of |simulated - measured start| in percent of the step, over ``ops`` ops of one sort."""

    p95_pct: float
    ops: int
    basis: str  # "device ops", or "host ops" where the graph has no device op


def measured_timeline(graph: Graph, with_residuals: Timeline) -> Timeline:
    """The measured starts as a timeline, for reports that compare it with a simulated one.

    ``with_residuals`` is the simulation with residuals: it fills in ops without a measured start, and says which edge
    released each op. An op ends after its own duration: measured waiting is not part of it (R2).
    """
    known = graph.measured_start_ns >= 0
    start = np.where(known, graph.measured_start_ns, with_residuals.start_ns)
    return Timeline(start, start + graph.duration_ns, with_residuals.bound_by)


def replay_error_pct(graph: Graph, replayed: Timeline) -> float:
    """|replayed - measured step| in percent of the measured step; ``replayed`` is simulated without residuals."""
    return percent(abs(replayed.step_ns - graph.measured_step_ns), graph.measured_step_ns)


def start_error_p95(graph: Graph, replayed: Timeline) -> StartError | None:
    """How far the ops' starts are off; ``None`` when no op has a measured start.

    A collective counts once, by its arrival: the measured start of its transfer is derived, not recorded.
    """
    known = graph.measured_start_ns >= 0
    device = known & np.isin(graph.kind, DEVICE_OPS)
    transfers = transfer_of(graph)
    device[transfers[transfers >= 0]] = False
    basis, counted = ("device ops", device) if device.any() else ("host ops", known)
    if not counted.any():
        return None
    error = np.abs(replayed.start_ns[counted] - graph.measured_start_ns[counted])
    p95 = float(np.percentile(error, 95))
    return StartError(percent(p95, graph.measured_step_ns), int(counted.sum()), basis)


def residual_pct(graph: Graph, with_residuals: Timeline) -> float:
    """Delay that no edge explains on the critical path of the simulation with residuals, in percent of its step."""
    path = critical_path(graph, with_residuals)
    unexplained = path.time_ns[path.part == Part.RESIDUAL].sum()
    return percent(int(unexplained), with_residuals.step_ns)
