"""Cuts the ``traceEvents`` list of a Chrome trace into pieces at event boundaries, from a stream of blocks.

A boundary is ``}`` - optional comma - ``{"key":``. Inside a well-formed JSON string quotes are escaped, so a boundary
never lies in one; inside nested lists of objects it may, and then the piece before it does not decode and its
unfinished end is carried over to the next piece (:mod:`parsers._chrome_events`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from replay.core.errors import TraceError

PIECE_BYTES = 2 << 20
HEAD_LIMIT_BYTES = 64 << 20
_LIST_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE_LIST = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*\[")
_BEGINS_EVENT = re.compile(rb'\{\s*"[^"\\]*"\s*:')
_BETWEEN = b" \t\r\n,"
_BLANK_LIMIT = 256


@dataclass(slots=True)
class ChromeStream:
    """The blocks of one file, with the text before and after its event list. State: head → events → tail."""

    blocks: Iterable[bytes]
    name: str
    piece_bytes: int = PIECE_BYTES
    head: bytes = b""
    tail: bytes = b""
    is_list: bool = False
    cut_short: bool = False
    _rest: bytes = field(default=b"", repr=False)

    def pieces(self) -> Iterator[bytes]:
        """Runs of whole events, without the list's brackets; the last one may hold the list's end and the tail."""
        buffer = bytearray()
        started = False
        for block in self._guarded():
            buffer += block
            if not started:
                started = self._find_start(buffer)
            while started and len(buffer) >= self.piece_bytes:
                cut = last_boundary(buffer)
                if cut <= 0:
                    break
                yield bytes(buffer[:cut])
                del buffer[:cut]
        if not started and not self._find_start(buffer):
            raise TraceError(f'{self.name}: no "traceEvents" list in {len(buffer)} bytes; not a Chrome trace')
        if buffer:
            yield bytes(buffer)

    def _guarded(self) -> Iterator[bytes]:
        try:
            yield from self.blocks
        except EOFError:
            self.cut_short = True

    def _find_start(self, buffer: bytearray) -> bool:
        """Move everything up to the list's ``[`` into ``head``."""
        bare = _BARE_LIST.match(buffer)
        found = bare or _LIST_KEY.search(buffer)
        if found is None:
            if len(buffer) > HEAD_LIMIT_BYTES:
                raise TraceError(f'{self.name}: no "traceEvents" list in the first {HEAD_LIMIT_BYTES >> 20} MiB')
            return False
        self.is_list = bare is not None
        self.head = bytes(buffer[: found.end()])
        del buffer[: found.end()]
        return True


def last_boundary(buffer: bytes | bytearray) -> int:
    """Offset of the last ``{`` that begins an event after another one, 0 where there is none."""
    at = len(buffer)
    while (at := buffer.rfind(b"{", 0, at)) > 0:
        before = buffer[max(0, at - _BLANK_LIMIT) : at].rstrip(_BETWEEN)
        if before.endswith(b"}") and _BEGINS_EVENT.match(buffer, at):
            return at
    return 0
