"""The terminal report of a calibration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Group, RenderableType
from rich.text import Text

from calibration.run import Calibration
from replay.report.calibration import words
from replay.report.console import console
from replay.report.text_tables import filled_table, heading


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
    yield filled_table(words.FIT_COLUMNS, words.fit_rows(found), left=2)


def _learned(found: Calibration) -> Iterable[RenderableType]:
    rows = list(words.learned_rows(found))
    if rows:
        yield heading("Learned corrections (errors in %, median / 90th percentile, of samples held out)")
        yield filled_table(words.LEARNED_COLUMNS, rows, left=3)


def _predicted(found: Calibration) -> Iterable[RenderableType]:
    rows = list(words.predicted_rows(found))
    if rows:
        yield heading("Predicted from the profile, not fitted (errors in %, median / 90th percentile)")
        yield filled_table(words.PREDICTED_COLUMNS, rows, left=2)


def _parameters(found: Calibration) -> Iterable[RenderableType]:
    for fit in found.best():
        yield heading(f"Parameters of {words.fit_name(fit)}")
        yield filled_table(words.PARAMETER_COLUMNS, words.parameter_rows(fit), left=2)


def _outliers(found: Calibration) -> Iterable[RenderableType]:
    rows = list(words.outlier_rows(found.best(), limit=3))
    if rows:
        yield heading("Samples furthest from the model (--json lists all)")
        yield filled_table(words.OUTLIER_COLUMNS, rows, left=2)


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
