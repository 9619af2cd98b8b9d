"""Timelines as Bokeh figures, one a rank: lanes of all runs below each other, the same time axis for all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.plotting import figure

from replay.core.columns import Bool, Float64, Int64
from replay.core.units import NS_PER_MS
from replay.graph.types import OpKind
from replay.report.critical_path import critical_path
from replay.report.html.blocks import Blocks, blocks
from replay.report.html.colours import KINDS, PATH
from replay.report.slices import Run, Slices, Track, collect
from replay.report.words import nbytes_words, short
from replay.trace import CollectiveKind

MOST_RANKS = 8
MOST_LANES = 10  # of a rank and run, the busiest
LANE_PX, MARGIN_PX = 20, 58
NAME_LENGTH = 96  # of a kernel name in the hover

TOOLTIPS = """<div style="max-width: 42em; white-space: normal"><b>@name</b><br>@kind, @{start}{0.000000} ms +
@{length}{0.000000} ms<br>@info</div>"""


@dataclass(frozen=True, slots=True)
class Timelines:
    """One figure a rank, and what was left out of them, in words."""

    figures: tuple[figure, ...]
    notes: tuple[str, ...]


def timelines(runs: Sequence[Run], ranks: Sequence[int]) -> Timelines:
    """Figures of the first ``MOST_RANKS`` of ``ranks`` (those worth seeing first)."""
    slices = collect(runs)
    shown = tuple(ranks)[:MOST_RANKS]
    tracks = _tracks(slices, [run.label for run in runs], shown)
    chosen = np.zeros(len(slices.tracks), np.bool_)
    chosen[[track for rows in tracks.values() for track in rows]] = True
    drawn = blocks(slices, chosen)
    end_ms = max(run.timeline.step_ns for run in runs) / NS_PER_MS
    axis = Range1d(start=0, end=end_ms, bounds=(0, end_ms))
    paths = _paths(runs, slices)
    figures = tuple(
        _figure(rank, _Rows(slices, drawn, paths, rows, len(runs) > 1), axis) for rank, rows in tracks.items()
    )
    return Timelines(figures, tuple(_notes(slices, drawn, chosen, (len(shown), len(ranks)))))


def _notes(slices: Slices, drawn: Blocks, chosen: Bool, ranks: tuple[int, int]) -> list[str]:
    notes = []
    merged = int(drawn.count[drawn.slice < 0].sum())
    if merged:
        notes.append(
            f"{merged:,} ops too short to be seen are merged into {int((drawn.slice < 0).sum()):,} busy blocks"
        )
    if ranks[0] < ranks[1]:
        notes.append(f"{ranks[1] - ranks[0]} of {ranks[1]} ranks are not drawn")
    ranks_shown = {slices.tracks[i].rank for i in np.flatnonzero(chosen)}
    hidden = sum(1 for i, track in enumerate(slices.tracks) if track.rank in ranks_shown and not chosen[i])
    if hidden:
        notes.append(f"{hidden} lanes with little on them are not drawn")
    return notes


def _tracks(slices: Slices, labels: Sequence[str], ranks: Sequence[int]) -> dict[int, list[int]]:
    """Tracks of every rank from top to bottom: lane by lane, device first, the runs of a lane below each other."""
    busy = np.bincount(slices.track, weights=slices.end_ns - slices.start_ns, minlength=len(slices.tracks))
    found = {}
    for rank in ranks:
        mine = [i for i, track in enumerate(slices.tracks) if track.rank == rank]
        kept: list[int] = []
        for label in labels:
            of_run = [i for i in mine if slices.tracks[i].run == label]
            kept += sorted(of_run, key=lambda i: -busy[i])[:MOST_LANES]
        names = list(dict.fromkeys(slices.tracks[i].name for i in sorted(kept)))
        found[rank] = sorted(kept, key=lambda i: (*_place(slices.tracks[i], names), labels.index(slices.tracks[i].run)))
    return found


def _place(track: Track, names: list[str]) -> tuple[bool, int]:
    return not track.name.startswith("stream"), names.index(track.name)


def _paths(runs: Sequence[Run], slices: Slices) -> dict[int, tuple[Int64, Int64]]:
    """Begin and end of the pieces of each run's critical path, by track."""
    at = {(track.rank, track.run, track.name): i for i, track in enumerate(slices.tracks)}
    found: dict[int, tuple[Int64, Int64]] = {}
    for run in runs:
        path = critical_path(run.graph, run.timeline)
        lane = run.graph.lane[path.op]
        for number in np.unique(lane).tolist():
            key = (run.graph.lanes[number].rank, run.label, run.graph.lanes[number].label)
            if key in at:
                found[at[key]] = _joined(path.begin_ns[lane == number], path.end_ns[lane == number])
    return found


def _joined(begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Pieces that touch as one."""
    first = np.append(True, begin[1:] > end[:-1])
    last = np.append(first[1:], True)
    return begin[first], end[last]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is drawn of one rank, top to bottom."""

    slices: Slices
    drawn: Blocks
    paths: dict[int, tuple[Int64, Int64]]
    tracks: list[int]
    several: bool  # more than one run

    def label(self, track: int) -> str:
        found = self.slices.tracks[track]
        return f"{found.name} · {found.run}" if self.several else found.name


def _figure(rank: int, rows: _Rows, axis: Range1d) -> figure:
    height = MARGIN_PX + LANE_PX * len(rows.tracks)
    plot = figure(
        title=f"rank {rank}", height=height, sizing_mode="stretch_width", x_range=axis,
        y_range=Range1d(start=len(rows.tracks), end=0),
        tools="xpan,xbox_zoom,xwheel_zoom,zoom_in,zoom_out,reset", active_drag="xbox_zoom", toolbar_location="above",
        x_axis_label="ms from the step's begin",
    )  # fmt: skip
    plot.toolbar.logo = None
    plot.min_border_left = 190
    plot.yaxis.ticker = [row + 0.5 for row in range(len(rows.tracks))]
    plot.yaxis.major_label_overrides = {
        row + 0.5: short(rows.label(track), 36) for row, track in enumerate(rows.tracks)
    }
    plot.ygrid.visible = False
    bars = plot.quad(
        left="start", right="end", top="top", bottom="bottom", fill_color="colour", line_color=None,
        source=_rectangles(rows),
    )  # fmt: skip
    plot.quad(
        left="start", right="end", top="top", bottom="bottom", fill_color=PATH, line_color=None, source=_lines(rows)
    )
    plot.add_tools(HoverTool(renderers=[bars], tooltips=TOOLTIPS, point_policy="follow_mouse"))
    return plot


def _rectangles(rows: _Rows) -> ColumnDataSource:
    """One row per block of the rank's tracks."""
    drawn, slices = rows.drawn, rows.slices
    row_of = {track: row for row, track in enumerate(rows.tracks)}
    at = np.flatnonzero(np.isin(drawn.track, rows.tracks))
    row = np.array([row_of[track] for track in drawn.track[at].tolist()], np.float32)
    kinds = [KINDS[OpKind(kind)] for kind in drawn.kind[at].tolist()]
    words = [_words(slices, drawn, block) for block in at.tolist()]
    return ColumnDataSource({
        "start": _ms(drawn.start_ns[at]),
        "end": _ms(drawn.end_ns[at]),
        "length": _ms(drawn.end_ns[at] - drawn.start_ns[at]),
        "top": row + np.float32(0.1),
        "bottom": row + np.float32(0.8),
        "colour": [colour for _, colour in kinds],
        "kind": [name for name, _ in kinds],
        "name": [name for name, _ in words],
        "info": [info for _, info in words],
    })  # fmt: skip


def _words(slices: Slices, drawn: Blocks, block: int) -> tuple[str, str]:
    """Name and details of a block."""
    at = int(drawn.slice[block])
    if at < 0:
        length = max(int(drawn.end_ns[block] - drawn.start_ns[block]), 1)
        busy = min(100 * int(drawn.busy_ns[block]) / length, 100)
        return f"{drawn.count[block]} ops", f"busy {busy:.0f} % of the time; zoom does not split them"
    details = []
    if slices.collective[at] >= 0:
        details.append(CollectiveKind(int(slices.collective[at])).name.lower())
    if slices.group[at] >= 0:
        details.append(f"group {short(slices.names[int(slices.group[at])], 40)}")
    if slices.nbytes[at] >= 0:
        details.append(nbytes_words(int(slices.nbytes[at])))
    return short(slices.names[int(slices.name[at])], NAME_LENGTH), ", ".join(details)


def _lines(rows: _Rows) -> ColumnDataSource:
    """The critical path: a line below the lanes it runs along."""
    start, end, top = list[Float64](), list[Float64](), list[Float64]()
    for row, track in enumerate(rows.tracks):
        begin_ns, end_ns = rows.paths.get(track, (np.zeros(0, np.int64),) * 2)
        start.append(_ms(begin_ns))
        end.append(_ms(end_ns))
        top.append(np.full(len(begin_ns), row + 0.82))
    tops = np.concatenate(top)
    return ColumnDataSource(
        {"start": np.concatenate(start), "end": np.concatenate(end), "top": tops, "bottom": tops + 0.12}
    )


def _ms(ns: Int64) -> Float64:
    return np.asarray(ns / NS_PER_MS, np.float64)
