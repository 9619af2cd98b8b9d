"""Predicted against measured steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.plotting import figure

from replay.report.breakdown import State
from replay.report.html.colours import STATES
from replay.report.validation.types import CaseRow

SIDE_PX = 560
MARGIN = 1.06
DEVICES = tuple(STATES[state] for state in (State.COMPUTE, State.EXPOSED_EP, State.MEMORY_COPY, State.EXPOSED_PP))


def predicted_against_measured(devices: Mapping[str, Sequence[CaseRow]]) -> figure:
    """A point a case with its 80 % interval, on logarithmic axes; a case on the line is predicted exactly."""
    rows = [row for members in devices.values() for row in members if row.predicted_step_ms and row.measured_step_ms]
    span = _span(rows)
    plot = figure(
        width=SIDE_PX, height=SIDE_PX, x_axis_type="log", y_axis_type="log", x_range=span, y_range=span.clone(),
        x_axis_label="measured step, ms", y_axis_label="predicted step, ms", tools="pan,wheel_zoom,box_zoom,reset",
    )  # fmt: skip
    plot.toolbar.logo = None
    plot.outline_line_color = None
    plot.line([span.start, span.end], [span.start, span.end], color="#888888", line_dash="dashed")
    for at, (device, members) in enumerate(devices.items()):
        _points(plot, device, members, DEVICES[at % len(DEVICES)])
    plot.legend.location = "top_left"
    plot.legend.border_line_color = None
    return plot


def _points(plot: figure, device: str, rows: Sequence[CaseRow], colour: str) -> None:
    shown = [row for row in rows if row.predicted_step_ms is not None and row.measured_step_ms is not None]
    if not shown:
        return
    source = ColumnDataSource({
        "name": [row.name for row in shown],
        "change": [row.change for row in shown],
        "measured": [row.measured_step_ms for row in shown],
        "predicted": [row.predicted_step_ms for row in shown],
        "low": [row.interval_ms[0] if row.interval_ms else row.predicted_step_ms for row in shown],
        "high": [row.interval_ms[1] if row.interval_ms else row.predicted_step_ms for row in shown],
        "error": [row.error_pct for row in shown],
    })  # fmt: skip
    plot.segment(x0="measured", x1="measured", y0="low", y1="high", source=source, color=colour, line_alpha=0.45)
    points = plot.scatter("measured", "predicted", source=source, color=colour, size=7, legend_label=device)
    words = "@name (@change): predicted @predicted{0,0.0} ms, measured @measured{0,0.0} ms, error @error{+0.00} %"
    plot.add_tools(HoverTool(renderers=[points], tooltips=f"<div>{words}</div>"))


def _span(rows: Sequence[CaseRow]) -> Range1d:
    """One range for both axes, so that the line of equal steps is the diagonal."""
    ends = [value for row in rows for value in (row.measured_step_ms, row.predicted_step_ms) if value]
    return Range1d(start=min(ends) / MARGIN, end=max(ends) * MARGIN)
