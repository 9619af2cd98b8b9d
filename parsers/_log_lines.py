"""Lines of a log: a stream of decompressed blocks, cut at line ends and carriage returns, without terminal colours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from parsers.source import SourceFile

LINE_LIMIT = 1 << 16  # longer lines (a printed tensor, a base64 image) are cut: nothing we read is that long
CUT = "lines longer than 64 KiB, cut"
DAMAGED = "compressed files cut short, read up to there"

_ENDS = re.compile(rb"[\r\n]+")
_COLOUR = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]?|\(B)")


def lines(file: SourceFile, clipped: Counter[str]) -> Iterator[str]:
    """Lines of ``file`` in order; what was cut is counted in ``clipped``.

    The last line, where no line end closes it, may stop inside a number: only its complete part is given.
    """
    rest = b""
    skipping = False  # inside a line that was cut
    try:
        for block in file.blocks():
            *whole, rest = _ENDS.split(rest + block)
            for line in whole:
                if not skipping:
                    yield _text(line, clipped)
                skipping = False
            if len(rest) > LINE_LIMIT:
                if not skipping:
                    yield _text(rest, clipped)
                rest, skipping = b"", True
    except EOFError:
        clipped[DAMAGED] += 1
    if rest and not skipping:
        yield _complete_part(_text(rest, clipped))


def _text(line: bytes, clipped: Counter[str]) -> str:
    if len(line) > LINE_LIMIT:
        clipped[CUT] += 1
        line = line[:LINE_LIMIT]
    text = line.decode("utf-8", "replace")
    return _COLOUR.sub("", text) if "\x1b" in text else text


def _complete_part(line: str) -> str:
    """An unclosed line up to its last complete segment; a JSON object that is closed is complete."""
    if line.rstrip().endswith("}"):
        return line
    return line[: line.rfind("|") + 1] if "|" in line else line.rpartition(" ")[0]
