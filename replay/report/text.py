"""The terminal report: headline first, then what was held fixed, where the time goes, and how far to trust it.

:func:`render_run` and :func:`render_inspection` put the sections in order. Colour appears on a terminal only.
"""

from __future__ import annotations

from typing import TextIO

from rich.console import Group

from replay.report import log_text
from replay.report import text_sections as sections
from replay.report import text_tables as tables
from replay.report.ascend_text import ascend_tables
from replay.report.console import console
from replay.report.result import Inspection, RunResult
from replay.report.structure_text import structure

_HEADLINE = (sections.headline, sections.throughput)
_BODY = (
    sections.held_fixed,
    sections.layouts,
    tables.breakdown_table,
    sections.evidence,
    sections.changes,
    tables.stragglers,
    tables.collectives,
    tables.chunk_costs,
    sections.sensitivities,
    sections.trust,
    sections.warnings,
)
_EXPLANATION = (sections.interval_basis, sections.pass_order, sections.definitions)
_INSPECTION = (
    sections.layouts,
    sections.model,
    tables.breakdown_table,
    tables.rank_table,
    structure,
    tables.top_ops,
    ascend_tables,
    tables.collectives,
    tables.chunk_costs,
    sections.trust,
    sections.questions,
    sections.warnings,
)
_LOG = (
    log_text.steady_lines,
    sections.layouts,
    sections.model,
    log_text.throughput,
    log_text.memory,
    log_text.timers,
    log_text.health,
    sections.questions,
    sections.warnings,
)


def render_run(result: RunResult, out: TextIO, *, explain: bool = False, quiet: bool = False) -> None:
    """Write the report of a run; ``quiet`` keeps the headline, ``explain`` adds every change and the definitions."""
    chosen = _HEADLINE + (() if quiet else _BODY) + (_EXPLANATION if explain else ())
    console(out).print(Group(*(item for section in chosen for item in section(result))))


def render_inspection(result: Inspection, out: TextIO, *, quiet: bool = False) -> None:
    """Write what an input holds, its statistics and what can be asked of it; ``quiet`` keeps the first lines."""
    body = _LOG if result.log else _INSPECTION
    chosen = (sections.input_facts, sections.measured_step) + (() if quiet else body)
    console(out).print(Group(*(item for section in chosen for item in section(result))))
