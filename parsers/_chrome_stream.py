"""Cuts the ``traceEvents`` list of a Chrome trace into pieces at event boundaries, one for each block of a stream.

A boundary is ``}``, comma, ``{"key":``; a missing comma is no boundary here, because adding it is a repair that counts.
Inside a well-formed JSON string quotes are escaped, so a boundary never lies in one; inside nested lists of objects it
may, and then the piece before it does not decode and its unfinished end is carried over to the next piece
(:mod:`parsers._chrome_events`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from replay.core.errors import TraceError

PIECE_BYTES = 1 << 18  # its events fit in a core's cache: larger pieces are slower
HEAD_LIMIT_BYTES = 64 << 20
EVENT_LIMIT_BYTES = 1 << 20  # what is longer is not an event but damage
_LIST_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_LIST_KEY_LIMIT = 256  # of the key with its blanks
_BARE_LIST = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*\[")
_BEGINS_EVENT = re.compile(rb'\{\s*"[^"\\]*"\s*:')
_BLANK = b" \t\r\n"
_BETWEEN = b" \t\r\n,"
_BLANK_LIMIT = 256


@dataclass(slots=True)
class ChromeStream:
    """The blocks of one file; while they are read, the text before and after its event list is put aside."""

    blocks: Iterable[bytes]
    name: str
    head: bytes = b""
    tail: bytes = b""
    is_list: bool = False
    cut_short: bool = False

    def pieces(self) -> Iterator[bytes]:
        """Runs of whole events, without the list's brackets; the last one may hold the list's end and the tail.

        Raises :class:`TraceError` where there is no list of events.
        """
        blocks = self._whole_blocks()
        rest = self._after_head(blocks)
        for block in blocks:
            text = rest + block
            cut = last_boundary(text, max(0, len(rest) - _BLANK_LIMIT))
            if not cut and len(text) > EVENT_LIMIT_BYTES:
                cut = len(text)
            if cut:
                yield text[:cut]
            rest = text[cut:]
        if rest:
            yield rest

    def _whole_blocks(self) -> Iterator[bytes]:
        try:
            yield from self.blocks
        except EOFError:
            self.cut_short = True

    def _after_head(self, blocks: Iterator[bytes]) -> bytes:
        """What follows the list's ``[`` in the block that holds it; everything before becomes ``head``."""
        text = b""
        for block in blocks:
            searched = len(text)
            text += block
            bare = _BARE_LIST.match(text)
            found = bare or _LIST_KEY.search(text, max(0, searched - _LIST_KEY_LIMIT))
            if found:
                self.is_list = bare is not None
                self.head = text[: found.end()]
                return text[found.end() :]
            if len(text) > HEAD_LIMIT_BYTES:
                break
        raise TraceError(f'{self.name}: no "traceEvents" list in {len(text)} bytes; not a Chrome trace')


def last_boundary(text: bytes, since: int = 0) -> int:
    """Offset of the last ``{`` from ``since`` on that begins an event after another one, 0 where there is none."""
    at = len(text)
    while (at := text.rfind(b"{", since, at)) > 0:
        before = text[max(0, at - _BLANK_LIMIT) : at].rstrip(_BLANK)
        if before.endswith(b",") and before.rstrip(_BETWEEN).endswith(b"}") and _BEGINS_EVENT.match(text, at):
            return at
    return 0
