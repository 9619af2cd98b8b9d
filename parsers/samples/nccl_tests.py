"""nccl-tests and rccl-tests: the tables that all_reduce_perf and its siblings print.

The columns are those that the header names, whatever the version. Launcher prefixes, Markdown fences, NCCL_DEBUG lines
and text around the tables do not matter. Both halves of a row are samples: out of place and in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from parsers.samples import _nccl_table
from parsers.samples._nccl_header import Context, advance, software_in
from parsers.samples._nccl_table import Half
from parsers.samples._rows import Gathered
from parsers.source import SourceFile
from replay.samples import Samples

FORMAT = "nccl-tests / rccl-tests log"

_SIGNS = re.compile(rb"algbw\s+busbw|nccl-tests version|rccl-tests: Version|# nThread|NCCL Tests compiled")
_ROW = re.compile(
    r"(?<![\d.])(\d+)\s+(\d+)\s+((?:u?int|f8e|fp8_)\w*|char|half|float|double|bfloat16)((?:\s+\S+)*\s+[\d.]\S*.*)$"
)
_FAILURE = re.compile(r"Test \w+ failure.*|launch failed.*|alloc failed.*|# error:\s*\S.*")
_BLANK_HALF = re.compile(r"\S\s{24,}\S")  # nccl-tests prints 32 spaces for a half that it did not run


def sniff(head: bytes) -> bool:
    """The words of a header, or of the first lines of a run."""
    return _SIGNS.search(head) is not None


def read(file: SourceFile) -> Samples:
    """All rows of all runs in the log."""
    gathered = Gathered(file.name)
    context = Context(software=software_in(file.name))
    halves: list[Half] = []
    header = 0
    for number, line in enumerate(file.read().decode("utf-8", "replace").splitlines(), start=1):
        if context.columns and "#" not in line and (row := _ROW.search(line)):
            halves += _halves(row, context, number, gathered)
            context = replace(context, rows_seen=True)
            continue
        following = advance(context, line)
        if (following.columns, following.hosts, following.op) != (context.columns, context.hosts, context.op):
            _close(halves, context, header, gathered)
            halves = []
        header = number if following.columns is not context.columns and following.columns else header
        context = following
        if failure := _FAILURE.search(line):
            gathered.say(f"the log reports a failure: {failure[0].strip()}", number)
    _close(halves, context, header, gathered)
    return gathered.samples()


def _close(halves: list[Half], context: Context, header: int, gathered: Gathered) -> None:
    if halves:
        _nccl_table.add(halves, context, gathered)
    elif context.columns and not context.rows_seen:
        gathered.say(f"the table of {context.op or 'a test'} has no rows (the run ended early)", header)


def _halves(row: re.Match[str], context: Context, number: int, gathered: Gathered) -> list[Half]:
    """The halves of a row that are whole."""
    named = context.lead - 3  # words between the type and the first time: redop, root
    values = row[4].split()
    redop = dict(zip(context.columns[3 : context.lead], values, strict=False)).get("redop", "none")
    found = []
    for in_place, cells in _cells(row[4], values[named:], context):
        times = [_number(cells.get(word, "")) for word in (context.columns[context.lead], "algbw", "busbw")]
        if None in times:
            gathered.leave_out("the row is cut short or holds no numbers", number)
            continue
        time, algbw, busbw = (value or 0.0 for value in times)
        wrong = cells.get("wrong", "N/A")
        found.append(Half(number, int(row[1]), row[3], redop, in_place, time, algbw, busbw, wrong))
    return found


def _cells(text: str, values: list[str], context: Context) -> Iterator[tuple[bool, dict[str, str]]]:
    """(in place, word → value) of each half that the row has."""
    width = context.width
    words = context.columns[context.lead : context.lead + width]
    if context.halves == 1:
        yield context.in_place_only, dict(zip(words, values, strict=False))
    elif len(values) < 2 * width - 1 and _BLANK_HALF.search(text):
        yield True, dict(zip(words, values, strict=False))
    else:
        yield False, dict(zip(words, values[:width], strict=False))
        yield True, dict(zip(words, values[width : 2 * width], strict=False))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
