"""Breakdowns as stacked bars, and the parts of a difference as bars to either side of zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bokeh.models import ColumnDataSource, FactorRange, HoverTool
from bokeh.plotting import figure

from replay.report.breakdown import State
from replay.report.html.colours import FALL, RISE, STATES

ROW_PX, MARGIN_PX = 30, 90


def stacked(rows: Mapping[str, Mapping[str, float | int | None]]) -> figure:
    """One bar a row, cut into states; ``rows`` are milliseconds by state label."""
    names = list(rows)
    states = [state for state in State if any(rows[name].get(state.label) for name in names)]
    data: dict[str, Any] = {"row": names}
    data |= {state.label: [float(rows[name].get(state.label) or 0.0) for name in names] for state in states}
    plot = _plot(names, ROW_PX * len(names) + MARGIN_PX)
    bars = plot.hbar_stack(
        [state.label for state in states], y="row", height=0.7, source=ColumnDataSource(data),
        color=[STATES[state] for state in states], line_color="white", line_width=0.5,
        legend_label=[state.label.replace("_", " ") for state in states],
    )  # fmt: skip
    for state, bar in zip(states, bars, strict=True):
        words = f"@row: {state.label.replace('_', ' ')} @{state.label}{{0,0.000}} ms"
        plot.add_tools(HoverTool(renderers=[bar], tooltips=f"<div>{words}</div>"))
    plot.add_layout(plot.legend[0], "below")
    plot.legend[0].orientation = "horizontal"
    plot.legend[0].ncols = 8
    plot.legend[0].border_line_color = None
    plot.legend[0].label_text_font_size = "9pt"
    return plot


def signed(parts: Mapping[str, float]) -> figure:
    """One bar a part, milliseconds: longer to the right, shorter to the left."""
    names = [name for name, value in parts.items() if value]
    plot = _plot([name.replace("_", " ") for name in names], ROW_PX * max(len(names), 1) + MARGIN_PX // 2)
    source = ColumnDataSource({
        "part": [name.replace("_", " ") for name in names],
        "value": [parts[name] for name in names],
        "colour": [RISE if parts[name] > 0 else FALL for name in names],
    })  # fmt: skip
    plot.hbar(y="part", right="value", height=0.7, color="colour", source=source)
    plot.add_tools(HoverTool(tooltips="<div>@part: @value{+0,0.000000} ms</div>"))
    return plot


def _plot(names: list[str], height: int) -> figure:
    plot = figure(
        y_range=FactorRange(factors=names[::-1]),
        height=height, sizing_mode="stretch_width", tools="", toolbar_location=None,
        x_axis_label="ms",
    )  # fmt: skip
    plot.ygrid.visible = False
    plot.min_border_left = 190
    plot.outline_line_color = None
    return plot
