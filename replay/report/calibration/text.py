"""The terminal report of a calibration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from calibration.run import Calibration
from replay.report.calibration import words
from replay.report.console import console
from replay.report.text_tables import heading, new_table


def render(found: Calibration, out: TextIO, *, quiet: bool = False) -> None:
    """Write the headline, fits, parameters, outliers and notes; ``quiet`` keeps the headline."""
    sections = (_headline,) if quiet else (_headline, _fits, _learned, _predicted, _parameters, _outliers, _lines)
    console(out).print(Group(*(item for section in sections for item in section(found))))


def _headline(found: Calibration) -> Iterable[RenderableType]:
    yield Text(words.headline(found), style="bold")


def _fits(found: Calibration) -> Iterable[RenderableType]:
    yield heading(
        "Fits (errors in %, median / 90th percentile, of samples fitted and held out; * the best of several models)"
    )
    table = new_table(*words.FIT_COLUMNS, left=2)
    for row in words.fit_rows(found):
        table.add_row(*map(escape, row))
    yield table


def _learned(found: Calibration) -> Iterable[RenderableType]:
    rows = list(words.learned_rows(found))
    if rows:
        yield heading("Learned corrections (errors in %, median / 90th percentile, of samples held out)")
        table = new_table(*words.LEARNED_COLUMNS, left=3)
        for row in rows:
            table.add_row(*map(escape, row))
        yield table


def _predicted(found: Calibration) -> Iterable[RenderableType]:
    rows = list(words.predicted_rows(found))
    if rows:
        yield heading("Predicted from the profile, not fitted (errors in %, median / 90th percentile)")
        table = new_table(*words.PREDICTED_COLUMNS, left=2)
        for row in rows:
            table.add_row(*map(escape, row))
        yield table


def _parameters(found: Calibration) -> Iterable[RenderableType]:
    for fit in found.best():
        yield heading(f"Parameters of {words.fit_name(fit)}")
        table = new_table(*words.PARAMETER_COLUMNS, left=2)
        for row in words.parameter_rows(fit):
            table.add_row(*map(escape, row))
        yield table


def _outliers(found: Calibration) -> Iterable[RenderableType]:
    rows = list(words.outlier_rows(found.best(), limit=3))
    if rows:
        yield heading("Samples furthest from the model (--json lists all)")
        table = new_table(*words.OUTLIER_COLUMNS, left=2)
        for row in rows:
            table.add_row(*map(escape, row))
        yield table


def _lines(found: Calibration) -> Iterable[RenderableType]:
    for title, lines in (
        ("Contradictions", words.contradiction_lines(found.best())),
        ("Correlations", words.correlation_lines(found.best())),
        ("Refused", words.refusal_lines(found)),
        ("Notes", words.note_lines(found)),
    ):
        shown = list(lines)
        if shown:
            yield heading(title)
            yield from (Text(f"  {line}") for line in shown)
