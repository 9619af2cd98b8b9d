"""Breakdown of a step: what each rank was doing, one state at any instant, in integer ns that sum to the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from replay.core.columns import Bool, Int64, freeze
from replay.core.evidence import Grade
from replay.core.units import ns_to_ms, percent
from replay.graph.parallel_kind import ParallelKind, parallel_kinds
from replay.graph.types import DEVICE_OPS, Graph, OpKind, Rule
from replay.report.members import transfer_of
from replay.simulate.timeline import Timeline
from replay.trace import CollectiveKind


class State(IntEnum):
    """State of a rank; where several hold at once, the lowest counts."""

    COMPUTE = 0
    EXPOSED_TP = 1
    EXPOSED_CP = 2
    EXPOSED_EP = 3
    EXPOSED_DP = 4
    EXPOSED_PP = 5
    EXPOSED_OTHER = 6
    WAIT = 7  # inside a collective, before all members are there
    MEMORY_COPY = 8
    BUBBLE = 9  # waiting for another pipeline stage
    HOST = 10
    IDLE = 11

    @property
    def label(self) -> str:
        """Key of the JSON output."""
        return self.name.lower()


_EXPOSED = tuple(state for state in State if State.EXPOSED_TP <= state <= State.EXPOSED_OTHER)
_WAITING = (State.WAIT, State.BUBBLE, State.IDLE)
_COPIES = (OpKind.MEMCPY, OpKind.MEMSET)
_HOST = (OpKind.HOST, OpKind.CALL)
_STAGE_RULES = (Rule.P2P, Rule.DATA)

_Spans = tuple[Int64, Int64, Int64, Int64]  # rank row, state, begin, end


@dataclass(frozen=True, slots=True)
class Breakdown:
    """``time_ns`` is (ranks, states); each row sums to ``step_ns``."""

    ranks: tuple[int, ...]
    time_ns: Int64
    overlapped_ns: Int64  # per rank: communication moving data while the rank also computes
    step_ns: int

    def __post_init__(self) -> None:
        freeze(self.time_ns)
        freeze(self.overlapped_ns)

    @property
    def slowest_rank(self) -> int:
        """The rank that waits least (wait, bubble and idle together): the others wait for it. Lowest rank on a tie."""
        return self.ranks[int(self.time_ns[:, list(_WAITING)].sum(axis=1).argmin())]

    def of_rank_ms(self, rank: int) -> dict[str, float]:
        """Milliseconds by state label, and ``overlapped_communication``, of one rank."""
        row = self.ranks.index(rank)
        return self._labelled(self.time_ns[row], self.overlapped_ns[row])

    def mean_ms(self) -> dict[str, float]:
        """The same as mean over ranks."""
        return self._labelled(self.time_ns.mean(axis=0), self.overlapped_ns.mean())

    @staticmethod
    def _labelled(states: Iterable[float], overlapped: float) -> dict[str, float]:
        parts = {state.label: ns_to_ms(ns) for state, ns in zip(State, states, strict=True)}
        return {**parts, "overlapped_communication": ns_to_ms(overlapped)}


def breakdown(graph: Graph, timeline: Timeline, step_ns: int | None = None) -> Breakdown:
    """Time of every rank by :class:`State` over [0, step); ``step_ns`` defaults to the timeline's end.

    Priority at any instant: compute > exposed communication > wait > copy > bubble > host > idle. O(n log n).
    """
    step = timeline.step_ns if step_ns is None else step_ns
    ranks = np.unique(graph.rank).astype(np.int64)
    row, state, begin, end = _clipped(_spans(graph, timeline, ranks, step), step)
    time_ns = _sweep((row, state, begin, end), len(ranks), len(State), step)
    moving = np.isin(state, _EXPOSED)
    active = _sweep(
        (row[moving], np.zeros(int(moving.sum()), np.int64), begin[moving], end[moving]), len(ranks), 2, step
    )
    overlapped = active[:, 0] - time_ns[:, list(_EXPOSED)].sum(axis=1)
    return Breakdown(tuple(int(rank) for rank in ranks), time_ns, overlapped, step)


def evidence_share(graph: Graph) -> dict[str, float]:
    """Percent of the device's busy time (of host time where there is no device op) by evidence grade."""
    device = np.isin(graph.kind, DEVICE_OPS)
    counted = device if graph.duration_ns[device].any() else np.ones(len(graph), np.bool_)
    grades = np.bincount(graph.grade[counted], weights=graph.duration_ns[counted], minlength=len(Grade))
    return {grade.label: percent(grades[grade], grades.sum()) for grade in Grade if grades[grade] > 0}


def _spans(graph: Graph, timeline: Timeline, ranks: Int64, step: int) -> _Spans:
    """Every interval in which a rank is in some state; they may overlap."""
    row = np.searchsorted(ranks, graph.rank).astype(np.int64)
    state = _op_states(graph)
    busy = state < State.IDLE
    ops = (row[busy], state[busy], timeline.start_ns[busy], timeline.end_ns[busy])
    parts = (ops, _waits(graph, timeline, row), _stage_gaps(graph, timeline, row), _drain(graph, timeline, row, step))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def _op_states(graph: Graph) -> Int64:
    """State that each op puts its rank in while it runs."""
    state = np.full(len(graph), State.IDLE, np.int64)
    state[np.isin(graph.kind, _HOST)] = State.HOST
    state[np.isin(graph.kind, _COPIES)] = State.MEMORY_COPY
    state[graph.kind == OpKind.COMPUTE] = State.COMPUTE
    transfer = graph.kind == OpKind.TRANSFER
    state[transfer] = State.EXPOSED_OTHER
    known = transfer & (graph.comm >= 0)
    exposed = State.EXPOSED_TP + parallel_kinds(graph).astype(np.int64)
    exposed[graph.comms.kind == CollectiveKind.NOTIFY] = State.WAIT  # a control exchange only waits (R8)
    state[known] = exposed[graph.comm[known]]
    return state


def _waits(graph: Graph, timeline: Timeline, row: Int64) -> _Spans:
    """From each arrival to its transfer: the members are not all there. Waiting for a stage is a bubble."""
    transfer = transfer_of(graph)
    arrival = np.flatnonzero(transfer >= 0)
    transfer = transfer[arrival]
    staged = parallel_kinds(graph)[graph.comm[arrival]] == ParallelKind.PP
    state = np.where(staged, State.BUBBLE, State.WAIT).astype(np.int64)
    return row[arrival], state, timeline.start_ns[arrival], timeline.start_ns[transfer]


def _stage_gaps(graph: Graph, timeline: Timeline, row: Int64) -> _Spans:
    """Gaps of a lane before an op that another rank's stage released; the lag of the edge is the transfer."""
    order = np.lexsort((timeline.end_ns, timeline.start_ns, graph.lane))
    before = np.zeros(len(graph), np.int64)
    same = graph.lane[order[1:]] == graph.lane[order[:-1]]
    before[order[1:]] = np.where(same, timeline.end_ns[order[:-1]], 0)
    released = np.flatnonzero((timeline.bound_by >= 0) & ~np.isin(graph.kind, _HOST))
    op = released[_crosses_stages(graph)[timeline.bound_by[released]]]
    begin, start = before[op], timeline.start_ns[op]
    moving = start - np.maximum(graph.edges.lag_ns[timeline.bound_by[op]], 0)
    states = np.repeat(np.array([State.BUBBLE, State.EXPOSED_PP], np.int64), len(op))
    return np.tile(row[op], 2), states, np.concatenate([begin, moving]), np.tile(start, 2)


def _drain(graph: Graph, timeline: Timeline, row: Int64, step: int) -> _Spans:
    """From the last op of a rank of a pipeline to the end of the step: the other stages drain."""
    crossing = _crosses_stages(graph)
    staged = np.union1d(row[graph.edges.source[crossing]], row[graph.edges.target[crossing]])
    last = np.zeros(int(row.max(initial=-1)) + 1, np.int64)
    np.maximum.at(last, row, timeline.end_ns)
    return staged, np.full(len(staged), State.BUBBLE, np.int64), last[staged], np.full(len(staged), step, np.int64)


def _crosses_stages(graph: Graph) -> Bool:
    """Edges that hand data from one rank to another."""
    edges = graph.edges
    return np.asarray(np.isin(edges.rule, _STAGE_RULES) & (graph.rank[edges.source] != graph.rank[edges.target]))


def _clipped(spans: _Spans, step: int) -> _Spans:
    """Spans cut to [0, step); empty ones go."""
    row, state, begin, end = spans
    begin, end = np.clip(begin, 0, step), np.clip(end, 0, step)
    keep = end > begin
    return row[keep], state[keep], begin[keep], end[keep]


def _sweep(spans: _Spans, rows: int, states: int, step: int) -> Int64:
    """Time of every (row, state) over [0, step), lowest active state first; the last state takes the rest."""
    from replay.report import kernels  # noqa: PLC0415 - numba takes 0.3 s to import

    row, state, begin, end = spans
    time = np.concatenate([begin, end])
    both = np.concatenate([row, row])
    delta = np.concatenate([np.ones(len(begin), np.int64), np.full(len(end), -1, np.int64)])
    order = np.lexsort((time, both))
    return kernels.share_by_priority(
        time[order], both[order], np.concatenate([state, state])[order], delta[order], (rows, states), step
    )
