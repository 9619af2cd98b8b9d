"""Timelines as tracks of slices that never overlap, with arrows between ranks: what every trace exporter writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Int8, Int32, Int64, Interner, check_equal_length, freeze
from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind, Rule
from replay.report.members import transfer_of
from replay.simulate.timeline import Timeline
from replay.trace import CollectiveKind

_COLUMNS = ("start_ns", "end_ns", "track", "name", "kind", "grade", "wait_ns", "collective", "nbytes", "group")


@dataclass(frozen=True, slots=True)
class Run:
    """One execution to show: ``label`` is "measured", "replayed" or "predicted"."""

    label: str
    graph: Graph
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class Track:
    """A row of the viewer: one lane of one rank in one run. Overlapping ops continue on "… (2)"."""

    rank: int
    run: str
    name: str

    @property
    def process(self) -> str:
        """Heading that the tracks of one rank and run stand under."""
        return f"rank {self.rank} {self.run}"


@dataclass(frozen=True, slots=True)
class Slices:
    """Columns of length n, sorted by (track, start, end); no two slices of a track overlap."""

    start_ns: Int64
    end_ns: Int64
    track: Int32  # index into tracks
    name: Int32  # index into names
    kind: Int8  # OpKind; a collective member is one slice of kind ARRIVAL from its arrival to the end of its transfer
    grade: Int8  # evidence grade of the duration (of the transfer)
    wait_ns: Int64  # of a collective member, -1 for other ops
    collective: Int8  # CollectiveKind, -1 none
    nbytes: Int64  # -1 unknown
    group: Int32  # index into names, -1 unknown
    flow_source: Int32  # arrows, from slice to slice
    flow_target: Int32
    tracks: tuple[Track, ...]  # by rank, then in the order of the runs, then of the lanes
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in _COLUMNS}
        check_equal_length("Slices", **columns)
        for column in (*columns.values(), self.flow_source, self.flow_target):
            freeze(column)

    def __len__(self) -> int:
        return len(self.start_ns)

    def args(self) -> Iterator[dict[str, str | int]]:
        """What a viewer shows beside each slice; unknown values are left out."""
        wait, nbytes, group = self.wait_ns.tolist(), self.nbytes.tolist(), self.group.tolist()
        duration, collective = (self.end_ns - self.start_ns).tolist(), self.collective.tolist()
        kinds = [OpKind(kind).name.lower() for kind in range(len(OpKind))]
        grades = [Grade(grade).label for grade in range(len(Grade))]
        for i, (kind, grade) in enumerate(zip(self.kind.tolist(), self.grade.tolist(), strict=True)):
            args: dict[str, str | int] = {"kind": kinds[kind], "evidence": grades[grade]}
            if collective[i] >= 0:
                args["collective"] = CollectiveKind(collective[i]).name.lower()
            if wait[i] >= 0:
                args["wait_ns"] = wait[i]
                args["transfer_ns"] = duration[i] - wait[i]
            if nbytes[i] >= 0:
                args["bytes"] = nbytes[i]
            if group[i] >= 0:
                args["group"] = self.names[group[i]]
            yield args


def collect(runs: Sequence[Run]) -> Slices:
    """Slices of several runs side by side.

    Every op becomes one slice, zero-length ones included; only marks are left out, and the transfer of a collective
    member joins its arrival. Arrows lead from the last member of a collective to arrive to every other, from a send to
    its receive, and along edges that hand data to another rank.
    """
    names = Interner()
    parts = [_of_run(index, run, names) for index, run in enumerate(runs)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in _COLUMNS}
    before_zero = columns["start_ns"].min(initial=0)  # work from before the step; viewers know no negative time
    columns |= {name: columns[name] - before_zero for name in ("start_ns", "end_ns")}
    offsets = np.cumsum([0, *(len(part["name"]) for part in parts)])
    source, target = (
        np.concatenate([part[end] + offset for part, offset in zip(parts, offsets, strict=False)])
        for end in ("flow_source", "flow_target")
    )
    order, track, tracks = _lay_out(runs, columns.pop("track"), columns["start_ns"], columns["end_ns"])
    place = np.argsort(order)
    backwards = columns["start_ns"][source] >= columns["end_ns"][target]  # clocks of ranks may be off by their error
    flows = [place[end[~backwards]].astype(np.int32) for end in (source, target)]
    sorted_columns = {name: column[order] for name, column in columns.items()}
    return Slices(**sorted_columns, track=track, flow_source=flows[0], flow_target=flows[1], tracks=tracks,
                  names=names.names)  # fmt: skip


def _of_run(index: int, run: Run, names: Interner) -> dict[str, Int64]:
    """Columns of one run's slices in op order; ``track`` is (run, lane) packed, flows count from this run's first."""
    graph, timeline = run.graph, run.timeline
    transfer = transfer_of(graph)
    shown = graph.kind != OpKind.MARK
    shown[transfer[transfer >= 0]] = False
    op = np.flatnonzero(shown)
    last = np.where(transfer[op] >= 0, transfer[op], op)
    start = timeline.start_ns[op]
    wait = np.maximum(timeline.start_ns[last] - start, 0)
    comms, comm = graph.comms, graph.comm[op]
    code = np.array([names.code(name) for name in graph.names], np.int32)
    group = np.array([*(names.code(g.description or g.name) for g in graph.groups), -1], np.int32)

    slice_of = np.full(len(graph), -1, np.int64)
    slice_of[op] = np.arange(len(op))
    slice_of[last] = slice_of[op]
    flow_source, flow_target = _flows(graph, timeline, op, slice_of)
    return {
        "start_ns": start,
        "end_ns": np.maximum(timeline.end_ns[last], start),
        "track": (index << 32) + graph.lane[op].astype(np.int64),
        "name": code[graph.name[op]],
        "kind": graph.kind[op],
        "grade": graph.grade[last],
        "wait_ns": np.where(last != op, wait, -1),
        "collective": np.append(comms.kind, -1).astype(np.int8)[comm],
        "nbytes": np.append(comms.nbytes, -1)[comm],
        "group": group[np.append(comms.group, -1)[comm]],
        "flow_source": flow_source,
        "flow_target": flow_target,
    }


def _flows(graph: Graph, timeline: Timeline, shown: Int64, slice_of: Int64) -> tuple[Int64, Int64]:
    """Arrows between slices of one run: inside collectives, and along other edges that hand data to another rank."""
    edges = graph.edges
    handed = np.isin(edges.rule, (Rule.P2P, Rule.DATA)) & (graph.rank[edges.source] != graph.rank[edges.target])
    handed &= (graph.comm[edges.source] < 0) | (graph.comm[edges.target] < 0)
    source, target = edges.source[handed].astype(np.int64), edges.target[handed].astype(np.int64)

    members = shown[graph.comm[shown] >= 0]
    members = members[graph.comms.match[graph.comm[members]] >= 0]
    row = graph.comm[members]
    leads = graph.comms.kind[row] == CollectiveKind.SEND
    order = np.lexsort((-timeline.start_ns[members], ~leads, graph.comms.match[row]))
    members, match = members[order], graph.comms.match[row][order]
    begins = np.flatnonzero(np.diff(match, prepend=match[:1] - 1))
    lead = np.repeat(members[begins], np.diff(np.append(begins, len(members))))
    others = lead != members
    ends = (np.concatenate([source, lead[others]]), np.concatenate([target, members[others]]))
    drawn = (slice_of[ends[0]] >= 0) & (slice_of[ends[1]] >= 0)
    return slice_of[ends[0][drawn]], slice_of[ends[1][drawn]]


def _lay_out(runs: Sequence[Run], lane_key: Int64, start: Int64, end: Int64) -> tuple[Int64, Int32, tuple[Track, ...]]:
    """Order of the slices, the track of each in that order, and the tracks."""
    from replay.report import kernels  # noqa: PLC0415 - numba takes 0.3 s to import

    keys, lane = np.unique(lane_key, return_inverse=True)
    lanes = [(runs[key >> 32], runs[key >> 32].graph.lanes[key & 0xFFFFFFFF]) for key in keys.tolist()]
    by_rank = sorted(range(len(keys)), key=lambda i: (lanes[i][1].rank, int(keys[i])))
    position = np.argsort(np.array(by_rank, np.int64))[lane.reshape(-1)]
    order = np.lexsort((end, start, position))
    level = kernels.first_free_track(position[order], start[order], end[order])
    packed, track = np.unique(np.stack([position[order], level], axis=1), axis=0, return_inverse=True)
    tracks = []
    for place, at in packed.tolist():
        run, its_lane = lanes[by_rank[place]]
        tracks.append(Track(its_lane.rank, run.label, its_lane.label if at == 0 else f"{its_lane.label} ({at + 1})"))
    by_track = np.lexsort((end[order], start[order], track.reshape(-1)))
    return order[by_track], track.reshape(-1)[by_track].astype(np.int32), tuple(tracks)
