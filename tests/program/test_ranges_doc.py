"""The table of range names in the documentation is what the reader makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replay.program.ranges import read_range
from replay.program.types import Phase, Role

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "ranges.md"
ROWS = re.findall(r"^\| `(.+?)` \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("name", "cells"), ROWS)
def test_every_row_is_read_as_printed(name: str, cells: str) -> None:
    phase, role, *numbers = (cell.strip() for cell in cells.split("|"))
    meaning = read_range(name)
    assert meaning.phase == Phase[phase.upper() or "NONE"]
    assert meaning.role == Role[role.upper() or "NONE"]
    assert [meaning.microbatch, meaning.chunk, meaning.layer] == [int(number or -1) for number in numbers]
