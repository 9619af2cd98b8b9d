"""The HTML report of a validation."""

from __future__ import annotations

from replay.core.words import listed
from replay.report.html.page import Page, Section, Table, render
from replay.report.html.scatter import predicted_against_measured
from replay.report.validation import words
from replay.report.validation.summary import by_device
from replay.report.validation.types import Validation


def page(found: Validation) -> str:
    """One file that works offline."""
    facts = (f"cases: {found.file}", *words.overhead_lines(found))
    sections = (
        _plot(found),
        _summary(found),
        _cases(found),
        _refused(found),
        Section("Warnings", lines=found.warnings),
    )
    return render(Page("Predictions against measurements", words.headline(found), facts, sections))


def _plot(found: Validation) -> Section:
    if all(row.error_pct is None for row in found.rows):
        return Section("Predicted against measured")
    notes = ("On the dashed line both are equal; bars are 80 % intervals. Hover for names.",)
    return Section("Predicted against measured", notes, (predicted_against_measured(by_device(found.rows)),))


def _summary(found: Validation) -> Section:
    notes = ("A refused case counts as 100 % in the mean; worst, bias and intervals are of those predicted.",)
    return Section(
        "By device and kind of change",
        notes,
        table=Table(words.SUMMARY_COLUMNS, tuple(words.summary_rows(found)), left=2),
    )


def _cases(found: Validation) -> Section:
    columns, left = (*words.CASE_COLUMNS, "question", "source"), 3
    rows = tuple((*words.case_row(row), row.options, row.source) for row in found.rows)
    return Section("Cases", table=Table(columns, rows, left=left))


def _refused(found: Validation) -> Section:
    lines = tuple(f"{listed(names)}: {reason}" for reason, names in words.refusals(found.rows).items())
    return Section("Refused", lines=lines)
