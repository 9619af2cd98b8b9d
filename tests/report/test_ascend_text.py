"""Ascend's statistics as the terminal shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import cast

from rich.console import Console, Group

from replay.report.ascend import AscendFacts, CommunicationRow, Durations
from replay.report.ascend_text import ascend_tables
from replay.report.result import Inspection


def shown(rows: list[CommunicationRow], memory: Mapping[str, float | None] | None = None) -> list[str]:
    """Lines of the table of collectives, and peaks of memory."""
    facts = AscendFacts("measured", (), tuple(rows), (), (), ())
    result = SimpleNamespace(ascend=facts, memory=memory or {})
    out = StringIO()
    Console(file=out, width=120).print(Group(*ascend_tables(cast("Inspection", result))))
    return out.getvalue().splitlines()


def row(group: str, description: str) -> CommunicationRow:
    """One all-reduce of a group."""
    return CommunicationRow(
        "hcom_allReduce_", group, description, Durations(1, 1.0, 1.0, 1.0, 1.0, 1.0), 1.0, 0.0, 8, ""
    )


def test_groups_that_are_called_the_same_are_told_apart() -> None:
    """By the end of their ids; a job of many ranks has many of each kind."""
    text = "\n".join(shown([row("1234567890123", "tp"), row("1234567890456", "tp"), row("9876543210789", "default")]))
    assert all(name in text for name in ("tp ...890123", "tp ...890456", "default "))
    assert "210789" not in text


def test_rows_that_are_not_shown_are_counted() -> None:
    """Twelve of fourteen."""
    lines = shown([row(f"12345678{number:04}", "") for number in range(14)])
    assert sum("hcom_allReduce_" in line for line in lines) == 12
    assert lines[-1].strip() == "2 more in --json"


def test_each_peak_of_memory_is_shown_that_is_known() -> None:
    """Allocations alone were left out. Peaks may be of different ranks."""
    heading = "Peak memory, the largest of any rank"
    assert shown([], {"peak_gib": 1.5})[-2:] == [heading, "  1.50 GiB allocated"]
    assert shown([], {"peak_gib": None, "peak_reserved_gib": 2.0})[-1] == "  2.00 GiB reserved"
    assert shown([], {"peak_gib": None, "per_stage_gib": None}) == []


def test_what_steers_a_terminal_is_not_printed() -> None:
    """Names come from files that anybody may have written: neither markup nor escape sequences are followed."""
    text = "\n".join(shown([replace(row("1", "[/red]tp"), operator="hcom_\x1b[31m_")]))
    assert "hcom_?[31m_" in text and "[/red]tp" in text
