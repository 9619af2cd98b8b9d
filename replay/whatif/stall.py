"""``--stall RANK=MS``: the host of a rank does something else for so long as the step begins."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.core.errors import RefusedError
from replay.core.units import NS_PER_MS
from replay.graph.types import Graph, OpKind
from replay.whatif._edit import check_factor, regraded

LEVEL = "graph"
OPTION = "--stall"
ALL = "all"
UNIT = "ms"  # of the number that is given; the other edits multiply


def targets(graph: Graph) -> tuple[str, ...]:
    """Ranks of ``graph`` whose host was recorded, and all of them."""
    ranks = np.unique(graph.rank[_host(graph)]).tolist()
    return (ALL, *map(str, ranks)) if ranks else ()


def apply(graph: Graph, target: str, stall_ms: float) -> Graph:
    """The first host op of a rank, or of every one (``all``), takes ``stall_ms`` longer.

    What the delay does to the step follows from the simulation: work launched ahead hides it, collectives carry it to
    other ranks. Raises :class:`RefusedError` for a rank without host ops and for a time below 0 or not finite.
    """
    check_factor(OPTION, stall_ms, zero=True)
    known = targets(graph)
    if target not in known:
        listed = ", ".join(known) or "none, no host was recorded"
        raise RefusedError(
            f"{OPTION}: no host op of rank {target!r} is known; ranks of this input (or {ALL}): {listed}"
        )
    ranks = [int(rank) for rank in (known[1:] if target == ALL else (target,))]
    duration: Int64 = graph.duration_ns.copy()
    duration[[_first(graph, rank) for rank in ranks]] += round(stall_ms * NS_PER_MS)
    return graph.with_durations(duration, regraded(graph, duration != graph.duration_ns))


def _host(graph: Graph) -> Int64:
    return np.flatnonzero(np.isin(graph.kind, (OpKind.HOST, OpKind.CALL)))


def _first(graph: Graph, rank: int) -> int:
    """The host op that begins the step: the earliest measured, else the first in the order of the program."""
    ops = _host(graph)
    ops = ops[graph.rank[ops] == rank]
    start = graph.measured_start_ns[ops]
    return int(ops[np.argmin(np.where(start >= 0, start, np.iinfo(np.int64).max))])
