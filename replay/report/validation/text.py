"""The terminal report of a validation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from replay.core.words import listed
from replay.report.console import console
from replay.report.text_tables import filled_table, heading, new_table
from replay.report.validation import words
from replay.report.validation.types import Validation


def render(found: Validation, out: TextIO, *, quiet: bool = False) -> None:
    """Write the headline, the summary, every case and why cases were refused; ``quiet`` keeps the headline."""
    sections = (_headline,) if quiet else (_headline, _summary, _overhead, _cases, _refused, _warnings)
    console(out).print(Group(*(item for section in sections for item in section(found))))


def _headline(found: Validation) -> Iterable[RenderableType]:
    yield Text(f"{found.file}: {words.headline(found)}", style="bold")


def _summary(found: Validation) -> Iterable[RenderableType]:
    yield heading("By device and kind of change (a refused case counts as 100 % in the mean)")
    yield filled_table(words.SUMMARY_COLUMNS, words.summary_rows(found), left=2)


def _overhead(found: Validation) -> Iterable[RenderableType]:
    lines = list(words.overhead_lines(found))
    if lines:
        yield heading("Against steps without the profiler")
        yield from (Text(f"  {line}") for line in lines)


def _cases(found: Validation) -> Iterable[RenderableType]:
    yield heading("Cases")
    table = new_table(*words.CASE_COLUMNS, left=3)
    for row in found.rows:
        style = "yellow" if row.refused or row.in_interval is False else None
        table.add_row(*map(escape, words.case_row(row)), style=style)
    yield table


def _refused(found: Validation) -> Iterable[RenderableType]:
    reasons = words.refusals(found.rows)
    if reasons:
        yield heading("Refused")
        yield from (Text(f"  {listed(names)}: {reason}") for reason, names in reasons.items())


def _warnings(found: Validation) -> Iterable[RenderableType]:
    warnings = dict.fromkeys((*found.warnings, *(text for row in found.rows for text in row.warnings)))
    if warnings:
        yield heading("Warnings")
        yield from (Text(f"  - {warning}") for warning in warnings)
