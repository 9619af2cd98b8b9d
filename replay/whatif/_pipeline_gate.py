"""No prediction from a baseline that misses the measured step (R6)."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.core.errors import RefusedError
from replay.core.units import ns_to_ms, percent
from replay.graph.types import Graph
from replay.whatif._pipeline_baseline import Simulated

GATE_PCT = 5.0
_NAMED = 3  # ops that a refusal names


def error_pct(result: Simulated, measured_ns: int) -> float:
    """|simulated - measured step| in percent of the measured step."""
    return percent(abs(result.step_ns - measured_ns), measured_ns)


def gate(replayed: Simulated, lifted: Simulated | None, *, force: bool) -> bool:
    """True when replay or lift misses the measured step by more than the gate and the user insists.

    Raises :class:`RefusedError` when not insisting, with the ops that differ most: in start from the measurement
    where the replay is off, in duration from their template where only the lift is.
    """
    graph = replayed.graph
    if (error := error_pct(replayed, graph.measured_step_ns)) > GATE_PCT:
        kind, differences = "replay", _largest(graph, replayed.timeline.start_ns - graph.measured_start_ns, "start")
    elif lifted and (error := error_pct(lifted, graph.measured_step_ns)) > GATE_PCT:
        kind, differences = "lift", _largest(graph, lifted.graph.duration_ns - graph.duration_ns, "duration")
    else:
        return False
    if not force:
        raise RefusedError(
            f"the {kind} misses the measured step by {error:.1f} % (limit {GATE_PCT:g} %), so nothing is predicted; "
            f"{differences}; --force insists"
        )
    return True


def _largest(graph: Graph, difference_ns: Int64, what: str) -> str:
    worst = np.argsort(-np.abs(difference_ns), kind="stable")[:_NAMED].tolist()
    named = (f"{graph.describe(op)} {ns_to_ms(float(difference_ns[op])):+.1f} ms" for op in worst)
    return f"largest differences in {what}: {', '.join(named)}"
