"""Plots of a fit: measured against model, and what is left over by size of the op."""

from __future__ import annotations

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from calibration.run import Explained
from replay.report.breakdown import State
from replay.report.calibration.words import fit_name
from replay.report.html.colours import RISE, STATES

WIDTH_PX, HEIGHT_PX = 600, 430
SHOWN = 3000
"""Points of a plot: more are thinned out evenly in time, outliers stay."""

_MARGIN = 1.3
_TOOLS = "pan,wheel_zoom,box_zoom,reset"
_WORDS = "<div>@where: measured @measured{0,0.00} us, model @model{0,0.00} us</div>"


def measured_against_model(fit: Explained) -> figure:
    """A point a sample on logarithmic axes; on the dashed line both are equal."""
    source, ends = _points(fit)
    span = Range1d(start=ends[0] / _MARGIN, end=ends[1] * _MARGIN)
    plot = figure(
        width=WIDTH_PX, height=HEIGHT_PX, x_axis_type="log", y_axis_type="log", x_range=span, y_range=span.clone(),
        x_axis_label=f"{fit_name(fit)}: model, us", y_axis_label="measured, us", tools=_TOOLS,
    )  # fmt: skip
    plot.line([span.start, span.end], [span.start, span.end], color="#888888", line_dash="dashed")
    _scatter(plot, source, "model", "measured")
    return plot


def residuals(fit: Explained) -> figure:
    """Measured over model, in percent, by the model's time: a trend is what the model lacks."""
    source, _ = _points(fit)
    plot = figure(
        width=WIDTH_PX, height=HEIGHT_PX, x_axis_type="log", x_axis_label=f"{fit_name(fit)}: model, us",
        y_axis_label="measured / model - 1, %", tools=_TOOLS,
    )  # fmt: skip
    plot.add_layout(Span(location=0, dimension="width", line_color="#888888", line_dash="dashed"))
    _scatter(plot, source, "model", "off")
    return plot


def _points(fit: Explained) -> tuple[ColumnDataSource, tuple[float, float]]:
    """Samples of a plot, and the ends of both axes."""
    rows, predicted = fit.result.rows, fit.result.predicted_ns
    outlying = np.isin(rows, fit.result.outliers)
    kept = np.zeros(len(rows), dtype=bool)
    kept[np.argsort(predicted, kind="stable")[np.linspace(0, len(rows) - 1, min(SHOWN, len(rows))).astype(int)]] = True
    kept[np.flatnonzero(outlying)[:SHOWN]] = True
    measured, model = fit.samples.time_ns[rows[kept]] / 1e3, predicted[kept] / 1e3
    source = ColumnDataSource({
        "measured": measured,
        "model": model,
        "off": 100.0 * (measured / model - 1.0),
        "where": [fit.samples.where(int(row)) for row in rows[kept]],
        "colour": np.where(outlying[kept], RISE, STATES[State.COMPUTE]),
    })  # fmt: skip
    return source, (float(min(measured.min(), model.min())), float(max(measured.max(), model.max())))


def _scatter(plot: figure, source: ColumnDataSource, x: str, y: str) -> None:
    points = plot.scatter(x, y, source=source, size=4, color="colour", alpha=0.5, line_color=None)
    plot.add_tools(HoverTool(renderers=[points], tooltips=_WORDS))
    plot.toolbar.logo = None
    plot.outline_line_color = None
