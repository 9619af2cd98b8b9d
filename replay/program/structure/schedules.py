"""Micro-batches and chunks: the pipeline schedule that explains the order in which every rank runs its passes.

A schedule fixes, from (p, m, v, G) and the stage alone, whether the k-th pass of a rank is a forward or a backward one,
and of which micro-batch and chunk. One that has the right phase at every place on every rank numbers all passes. Sizes
that are merely assumed are found with it: those under which a schedule has the phases, and needs the transfers, that
the ranks show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from replay.core.columns import Int64
from replay.core.errors import LayoutError
from replay.graph.types import OpKind
from replay.layout import Layout
from replay.program.comm_ops import comm_kind, is_p2p
from replay.program.keys import PASS_PHASES
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence, Finding
from replay.program.structure._layouts import Runs, Transfers, explanations, forwards, needs, possible, slots, words
from replay.program.structure._sequence import possible_transfers
from replay.program.types import Phase
from replay.trace import CollectiveKind

ORDER = 50
MICROBATCH, CHUNK = FIELDS.index("microbatch"), FIELDS.index("chunk")
SIZES = frozenset({"pp", "vpp"})  # that the order of passes depends on
DIRECTIONS = (CollectiveKind.SEND, CollectiveKind.RECV)
INTERLEAVED = "interleaved"


def find(evidence: Evidence) -> Finding:
    """Micro-batch and chunk of every op of a numbered pass, and the layout they are those of.

    Raises :class:`LayoutError` where the number of passes contradicts the number of micro-batches that is known.
    """
    runs, finding, layout = _runs(evidence), evidence.nothing(), evidence.layout
    if not runs or _is_window(evidence, runs):
        return finding
    found = _explanation(evidence, runs, evidence.assumed)
    if found is not None:
        numbers = {rank: slots(found, rank) for rank in runs}
        which = "1 rank" if len(runs) == 1 else f"{len(runs)} ranks"
        sentence = f"micro-batches: passes of {which} run in the order of {words(found)}{_unlike_stated(layout, found)}"
        layout = _completed(layout, found, runs)
    else:
        if problem := _unexplained(evidence, runs):
            return replace(finding, sentences=(problem,))
        numbers = {rank: {one: [(k, 0) for k in range(len(own))] for one in PASS_PHASES} for rank, own in runs.items()}
        cut = ", ".join(evidence.trace.health.cut_short)
        why = f"the step may not be whole, for {cut} ends in the middle" if cut else "it is that of no known schedule"
        sentence = f"micro-batches numbered in the order of passes; {why}"
    for rank, by_phase in numbers.items():
        _write(evidence, rank, by_phase, finding)
    return replace(finding, sentences=(sentence,), layout=layout)


def _unexplained(evidence: Evidence, runs: Runs) -> str:
    """Why the passes cannot be numbered all the same: they have the order of other sizes, or of several chunks.

    Raises :class:`LayoutError` where they are not as many as the known number of micro-batches needs.
    """
    layout, cut = evidence.layout, bool(evidence.trace.health.cut_short)
    other = None if cut else _explanation(evidence, runs, SIZES)
    problem = _wrong_count(evidence, runs, layout)
    if problem and not cut:
        instead = f", in the order of {words(other)}" if other is not None else ""
        raise LayoutError(
            f"{problem}{instead}; correct --microbatches, --from or run.json, unless the trace is cut short"
        )
    if other is not None:
        sizes = ",".join(
            f"{name}={getattr(other, name)}" for name in SIZES if getattr(other, name) != getattr(layout, name)
        )
        return f"passes run in the order of {words(other)}, not in that of {_sizes(layout)}: give --from {sizes}"
    if layout.vpp > 1 or not all(_steady(phases, whole=not cut) for phases in runs.values()):
        return f"no known schedule of {_sizes(layout)} explains the order of passes"
    return ""


def _runs(evidence: Evidence) -> Runs:
    """Phases of the passes of every rank, in the order in which the ranks begin them."""
    phase, graph = evidence.said("phase"), evidence.graph
    known = np.flatnonzero((evidence.passes != UNKNOWN_PASS) & np.isin(phase, PASS_PHASES))
    runs = {}
    for rank in np.unique(graph.rank[known]).tolist():
        own = known[graph.rank[known] == rank]
        own = own[np.argsort(evidence.places.time_ns[own], kind="stable")]
        key = evidence.passes[own] * len(Phase) + phase[own]
        _, first = np.unique(key, return_index=True)
        runs[int(rank)] = phase[own[np.sort(first)]]
    return runs


def _is_window(evidence: Evidence, runs: Runs) -> bool:
    """One pass of each kind and no update: a window of a step, which says nothing of micro-batches."""
    alone = all(max(int((phases == one).sum()) for one in PASS_PHASES) == 1 for phases in runs.values())
    return alone and not _updated(evidence) and evidence.layout.microbatches is None


def _updated(evidence: Evidence) -> bool:
    """Whether the step ends with an update, as a whole one does."""
    return bool(np.isin(evidence.said("phase"), (Phase.OPTIMIZER, Phase.SYNC)).any())


def _explanation(evidence: Evidence, runs: Runs, free: frozenset[str]) -> Layout | None:
    """The complete layout, other than ``evidence``'s in ``free`` sizes only, that has the passes of every rank.

    One that needs the transfers seen wins over one that does not; a pipeline is found only where ranks send at all.
    """
    known, seen, first = evidence.layout, _transfers(evidence), None
    for layout in possible(known, free, forwards(runs), evidence.model.layers):
        unlinked = layout.pp > known.pp and not is_p2p(evidence.graph).any()
        if unlinked or _wrong_count(evidence, runs, layout):
            continue
        for found in explanations(runs, layout):
            if seen is None or needs(found, {rank: seen.get(rank, (0, 0)) for rank in runs}):
                return found
            first = first or found
    return first


def _transfers(evidence: Evidence) -> Transfers | None:
    """Sends and receives of every rank between what may be stages; ``None`` where some are both in one."""
    graph = evidence.graph
    among = possible_transfers(evidence, unnamed=evidence.layout.pp > 1 or "pp" in evidence.assumed)
    ops = np.flatnonzero(among & (graph.kind != OpKind.TRANSFER))
    kinds = comm_kind(graph)[ops]
    if (kinds == CollectiveKind.SEND_RECV).any():
        return None
    counts = np.zeros((int(graph.rank.max(initial=0)) + 1, len(DIRECTIONS)), np.int64)
    for place, direction in enumerate(DIRECTIONS):
        np.add.at(counts[:, place], graph.rank[ops[kinds == direction]], 1)
    return {rank: (sends, receives) for rank, (sends, receives) in enumerate(counts.tolist())}


def _completed(layout: Layout, found: Layout, runs: Runs) -> Layout:
    """``layout`` with the sizes found, and with what follows from them where nobody states it."""
    count = layout.microbatches if (layout.pp, layout.vpp) == (found.pp, found.vpp) else None
    sizes = replace(layout, pp=found.pp, vpp=found.vpp, dp=found.dp, microbatches=count or found.microbatches)
    if found.vpp > 1:
        group = layout.group_size or found.group_size
        return replace(sizes, schedule=layout.schedule or found.schedule, group_size=group)
    names = {other.schedule for other in explanations(runs, found)}
    clear = layout.schedule is None and len(names) == 1 and found.schedule != INTERLEAVED
    return replace(sizes, schedule=found.schedule) if clear else sizes


def _unlike_stated(layout: Layout, found: Layout) -> str:
    """Stated habits that the passes do not have, as the end of a sentence."""
    stated = [(name, getattr(layout, name)) for name in ("schedule", "group_size")]
    unlike = [
        f"{name.replace('_', ' ')} {value}" for name, value in stated if value not in (None, getattr(found, name))
    ]
    return f", not in that of the stated {' and '.join(unlike)}" if unlike else ""


def _wrong_count(evidence: Evidence, runs: Runs, layout: Layout) -> str:
    """How passes contradict the known number of micro-batches, "" where they do not.

    A rank that runs several passes runs one for each micro-batch and chunk; one pass may be what seems to be one. It is
    one where the autograd engine ran it and an update followed.
    """
    if layout.microbatches is None:
        return ""
    sure = len(evidence.engine) > 0 and _updated(evidence)
    expected = layout.microbatches * layout.vpp
    for rank, phases in runs.items():
        found = int((phases == Phase.FORWARD).sum())
        if (found > 1 or sure) and found != expected and found == int((phases == Phase.BACKWARD).sum()):
            chunks = f" x {layout.vpp} chunks" if layout.vpp > 1 else ""
            return (
                f"{layout.microbatches} micro-batches{chunks} are stated, but rank {rank} runs {found} forward and "
                f"{found} backward passes in the step"
            )
    return ""


def _steady(phases: Int64, *, whole: bool) -> bool:
    """No backward pass before its forward, and as many of them in a whole step; or forward ones only."""
    ahead = np.cumsum(np.where(phases == Phase.FORWARD, 1, np.where(phases == Phase.BACKWARD, -1, 0)))
    return bool((ahead >= 0).all() and (ahead[-1] == 0 or not whole or not (phases == Phase.BACKWARD).any()))


def _sizes(layout: Layout) -> str:
    return f"{layout.pp} stages and {layout.vpp} chunks a rank"


def _write(evidence: Evidence, rank: int, slots: Mapping[Phase, list[tuple[int, int]]], finding: Finding) -> None:
    own = np.flatnonzero((evidence.graph.rank == rank) & (evidence.passes != UNKNOWN_PASS))
    for phase, pairs in slots.items():
        rows = own[evidence.said("phase")[own] == phase]
        inside = rows[evidence.passes[rows] < len(pairs)]
        if len(inside):
            finding.states[np.ix_(inside, (MICROBATCH, CHUNK))] = np.array(pairs)[evidence.passes[inside]]
