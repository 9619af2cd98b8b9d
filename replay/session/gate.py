"""R6: no prediction from a baseline that is not reproduced."""

from __future__ import annotations

import textwrap

import numpy as np

from replay.core.errors import RefusedError
from replay.core.units import ns_to_ms
from replay.graph.types import Graph
from replay.simulate.timeline import Timeline

LIMIT_PCT = 5.0
NAMED_OPS = 3
NAME_WIDTH = 100


def require(what: str, error_pct: float, differing: str, *, force: bool) -> bool:
    """Pass when ``|error_pct|`` is at most 5; True when ``force`` overrode a failure.

    Raises :class:`RefusedError` naming ``differing``, the ops that differ most.
    """
    if abs(error_pct) <= LIMIT_PCT:
        return False
    if force:
        return True
    raise RefusedError(
        f"the {what} step differs from the measured one by {error_pct:+.1f} % (limit {LIMIT_PCT:g} %), so nothing is "
        f"predicted from it; {differing}; --force predicts all the same"
    )


def most_differing(graph: Graph, timeline: Timeline) -> str:
    """The ops, one per name, most of whose start is not explained.

    Too early: the time that passed before them is that of no dependency (their residual). Too late: they were measured
    before a dependency allows (a negative residual: clocks that differ, or an edge that is wrong).
    """
    known = graph.measured_start_ns >= 0
    unexplained = np.where(known, graph.residual_ns, 0)
    lines: dict[str, str] = {}
    for op in np.argsort(-np.abs(unexplained), kind="stable"):
        if unexplained[op] == 0 or len(lines) == NAMED_OPS:
            break
        off = ns_to_ms(timeline.start_ns[op] - graph.measured_start_ns[op])
        where = short(graph.describe(int(op)))
        unexplained_ms = ns_to_ms(unexplained[op])
        lines.setdefault(
            graph.name_of(int(op)), f"{where} ({unexplained_ms:.3f} ms unexplained, simulated {off:+.3f} ms off)"
        )
    return f"largest differences: {'; '.join(lines.values())}" if lines else "no single op stands out"


def short(name: str) -> str:
    """A name that fits in a message: kernel names run to kilobytes."""
    return textwrap.shorten(name, NAME_WIDTH, placeholder="...")
