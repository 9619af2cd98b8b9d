"""Micro-batches and chunks: the pipeline schedule that explains the order in which every rank runs its passes.

A schedule fixes, from (p, m, v, G) and the stage alone, whether the k-th pass of a rank is a forward or a backward one,
and of which micro-batch and chunk. One that has the right phase at every place on every rank numbers all passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Int64
from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.pipelines import ScheduleOrder, schedules
from replay.program.groups import coordinates
from replay.program.keys import PASS_PHASES
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence, Finding
from replay.program.types import Phase
from replay.recording import PassKind

ORDER = 50
MICROBATCH, CHUNK = FIELDS.index("microbatch"), FIELDS.index("chunk")
Runs = Mapping[int, Int64]  # rank → phase of each of its passes, in order of begin


@dataclass(frozen=True, slots=True)
class Fit:
    """A schedule and sizes that explain the passes."""

    name: str
    microbatches: int
    chunks: int
    group: int

    def order(self, pp: int, stage: int) -> ScheduleOrder:
        """Passes of one stage."""
        return schedules()[self.name].order(pp, stage, self.microbatches, self.chunks, self.group)

    def words(self) -> str:
        """Schedule and sizes for a sentence."""
        chunks = f", {self.chunks} chunks a rank in groups of {self.group}" if self.chunks > 1 else ""
        return f"{self.name} with {self.microbatches} micro-batch{'' if self.microbatches == 1 else 'es'}{chunks}"


def find(evidence: Evidence) -> Finding:
    """Micro-batch and chunk of every op of a numbered pass.

    Raises :class:`LayoutError` where the number of passes contradicts the number of micro-batches that is known.
    """
    runs, finding = _runs(evidence), evidence.nothing()
    if not runs:
        return finding
    layout = evidence.layout
    _check_counts(evidence, runs)
    if _is_window(evidence, runs):
        return finding
    fit = next(_fits(runs, layout, layout.vpp), None)
    if fit is not None:
        slots = {rank: _slots(fit.order(layout.pp, _stage(layout, rank))) for rank in runs}
        which = "1 rank" if len(runs) == 1 else f"{len(runs)} ranks"
        sentence = f"micro-batches: passes of {which} run in the order of {fit.words()}"
    elif layout.vpp == 1 and all(_steady(phases) for phases in runs.values()):
        slots = {
            rank: {phase: [(k, 0) for k in range(len(phases))] for phase in PASS_PHASES}
            for rank, phases in runs.items()
        }
        sentence = "micro-batches numbered in the order of passes; it is that of no known schedule"
    else:
        return Finding(finding.states, finding.passes, (_unexplained(runs, layout),))
    for rank, by_phase in slots.items():
        _write(evidence, rank, by_phase, finding)
    return Finding(finding.states, finding.passes, (sentence,))


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


def _stage(layout: Layout, rank: int) -> int:
    return coordinates(layout, rank)["pp"]


def _is_window(evidence: Evidence, runs: Runs) -> bool:
    """One pass of each kind and no update: a window of a step, which says nothing of micro-batches."""
    alone = all(max(int((phases == one).sum()) for one in PASS_PHASES) == 1 for phases in runs.values())
    return alone and not _updated(evidence) and evidence.layout.microbatches is None


def _updated(evidence: Evidence) -> bool:
    """Whether the step ends with an update, as a whole one does."""
    return bool(np.isin(evidence.said("phase"), (Phase.OPTIMIZER, Phase.SYNC)).any())


def _check_counts(evidence: Evidence, runs: Runs) -> None:
    """A rank that runs several passes runs one for each micro-batch and chunk; one pass may be what seems to be one.

    It is one where the autograd engine ran it and an update followed.
    """
    layout = evidence.layout
    if layout.microbatches is None:
        return
    sure = len(evidence.engine) > 0 and _updated(evidence)
    expected = layout.microbatches * layout.vpp
    for rank, phases in runs.items():
        found = int((phases == Phase.FORWARD).sum())
        if (found > 1 or sure) and found != expected and found == int((phases == Phase.BACKWARD).sum()):
            chunks = f" x {layout.vpp} chunks" if layout.vpp > 1 else ""
            raise LayoutError(
                f"{layout.microbatches} micro-batches{chunks} are stated, but rank {rank} runs {found} forward and "
                f"{found} backward passes in the step; correct --microbatches, --from or run.json, unless the trace is "
                "cut short"
            )


def _fits(runs: Runs, layout: Layout, chunks: int) -> Iterator[Fit]:
    """Schedules, the stated one first, that have every rank's phases in order."""
    counts = {int((phases == Phase.FORWARD).sum()) for phases in runs.values()}
    if len(counts) != 1 or (passes := counts.pop()) % chunks or not passes:
        return
    count = passes // chunks
    groups = dict.fromkeys((layout.group_size or layout.pp, layout.pp, *range(layout.pp, count + 1)))
    for name in sorted(schedules(), key=lambda name: (name != layout.schedule, name)):
        for group in groups if chunks > 1 else (layout.pp,):
            fit = Fit(name, count, chunks, group)
            if all(_explains(fit, layout, rank, phases) for rank, phases in runs.items()):
                yield fit


def _explains(fit: Fit, layout: Layout, rank: int, phases: Int64) -> bool:
    try:
        order = fit.order(layout.pp, _stage(layout, rank))
    except LayoutError:
        return False  # a schedule that cannot have these sizes explains nothing
    kinds = np.where(order.phase == PassKind.FORWARD, Phase.FORWARD, Phase.BACKWARD)
    return len(kinds) == len(phases) and bool((kinds == phases).all())


def _slots(order: ScheduleOrder) -> dict[Phase, list[tuple[int, int]]]:
    """(micro-batch, chunk) of the k-th pass of each phase."""
    pairs = np.stack([order.microbatch, order.chunk], axis=1)
    kinds = {Phase.FORWARD: PassKind.FORWARD, Phase.BACKWARD: PassKind.BACKWARD}
    return {phase: [(int(m), int(c)) for m, c in pairs[order.phase == kind]] for phase, kind in kinds.items()}


def _steady(phases: Int64) -> bool:
    """As many backward passes as forward ones, none before its forward; or forward ones only."""
    ahead = np.cumsum(np.where(phases == Phase.FORWARD, 1, np.where(phases == Phase.BACKWARD, -1, 0)))
    return bool((ahead >= 0).all() and (ahead[-1] == 0 or not (phases == Phase.BACKWARD).any()))


def _unexplained(runs: Runs, layout: Layout) -> str:
    """What the passes are in the order of, if not of the layout's schedule."""
    most = max(len(phases) for phases in runs.values())
    for chunks in range(1, most // 2 + 1):
        if chunks != layout.vpp and (fit := next(_fits(runs, layout, chunks), None)):
            return (
                f"passes run in the order of {fit.words()}, not of {layout.vpp} chunks a rank: give --from vpp={chunks}"
            )
    return f"no known schedule of {layout.pp} stages and {layout.vpp} chunks a rank explains the order of passes"


def _write(evidence: Evidence, rank: int, slots: Mapping[Phase, list[tuple[int, int]]], finding: Finding) -> None:
    own = np.flatnonzero((evidence.graph.rank == rank) & (evidence.passes != UNKNOWN_PASS))
    for phase, pairs in slots.items():
        rows = own[evidence.said("phase")[own] == phase]
        inside = rows[evidence.passes[rows] < len(pairs)]
        if len(inside):
            finding.states[np.ix_(inside, (MICROBATCH, CHUNK))] = np.array(pairs)[evidence.passes[inside]]
