"""The console that reports are written with."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

PLAIN_WIDTH = 120  # columns when the output is a file or a pipe


def console(out: TextIO) -> Console:
    """Colour, and the terminal's width, on a terminal only."""
    return Console(file=out, highlight=False, width=None if out.isatty() else PLAIN_WIDTH)
