"""Tables of a report at the widths of terminals."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from replay.report.report_table import ReportTable


def lines(table: ReportTable, width: int) -> list[str]:
    """What a console of that width prints, without the spaces at the ends of lines."""
    out = StringIO()
    Console(file=out, width=width).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def table() -> ReportTable:
    """Two columns of words of 8 and 4 characters, three of numbers of 9, 9 and 6."""
    found = ReportTable(("operator", "type", "total ms", "mean us", "share"), left=2)
    found.add_row("MatMulV2", "fp32", "1,234.567", "1,234.567", "50.0 %")
    return found


def test_a_table_that_fits_is_one_table() -> None:
    """8 + 4 + 9 + 9 + 6 characters and four gaps of two."""
    assert lines(table(), 44) == [
        "operator  type   total ms    mean us   share",
        "MatMulV2  fp32  1,234.567  1,234.567  50.0 %",
    ]


def test_a_narrow_terminal_gets_parts_that_repeat_the_words() -> None:
    """One character less than the table needs: cells were cut, and columns of words lost."""
    assert lines(table(), 43) == [
        "operator  type   total ms    mean us",
        "MatMulV2  fp32  1,234.567  1,234.567",
        "",
        "operator  type   share",
        "MatMulV2  fp32  50.0 %",
    ]


def test_long_words_are_folded_before_numbers_are_moved() -> None:
    """Sixteen characters are left of a name."""
    found = ReportTable(("op", "total ms"), left=1)
    found.add_row("abcdefghijklmnopqrstuvwxyz", "12.000")
    assert lines(found, 26) == ["op                total ms", "abcdefghijklmnop    12.000", "qrstuvwxyz"]


def test_a_table_without_words_repeats_its_first_column() -> None:
    """As tables by rank do."""
    found = ReportTable(("rank", "compute", "wait"), left=0)
    found.add_row("0", "12.5", "3.5")
    assert lines(found, 13) == ["rank  compute", "   0     12.5", "", "rank  wait", "   0   3.5"]


def test_markup_takes_no_room() -> None:
    """An escaped bracket is one character."""
    found = ReportTable(("op", "n"), left=1)
    found.add_row(r"a\[b]", "1")
    assert lines(found, 7) == ["op    n", "a[b]  1"]
