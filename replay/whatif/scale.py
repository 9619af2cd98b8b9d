"""``--scale PATTERN=FACTOR``: ops of some name or class take FACTOR times as long."""

from __future__ import annotations

from replay.graph.types import Graph
from replay.whatif._edit import check_factor, scaled
from replay.whatif._select import choose, classes_in

LEVEL = "graph"
OPTION = "--scale"


def targets(graph: Graph) -> tuple[str, ...]:
    """Classes of ops in ``graph``; parts of op names are accepted as well."""
    return classes_in(graph)


def apply(graph: Graph, target: str, factor: float) -> Graph:
    """Durations of the ops that ``target`` names, times ``factor``; see :func:`replay.whatif._select.choose`.

    Only an op's own time scales: lags and waiting follow from the simulation. Raises :class:`RefusedError` for a
    pattern without match and for a factor below 0 or not finite.
    """
    check_factor(OPTION, factor, zero=True)
    return scaled(graph, choose(graph, target), factor)
