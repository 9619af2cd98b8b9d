"""Repairs of single events that are not valid JSON: what profilers are known to write wrong, one function each.

Sources: unescaped quotes (kineto issue 1459), control characters (perfetto issue 598), ``inf`` bandwidths (kineto issue
105), invalid UTF-8 (HTA issue 324), trailing or missing commas and backslashes of hand-pasted JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_NON_FINITE = re.compile(rb"([:\[,]\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
_HUGE_EXPONENT = re.compile(rb"([:\[,]\s*)-?[\d.]+e\+?\d{3,}(?=\s*[,}\]])", re.IGNORECASE)
_TRAILING_COMMA = re.compile(rb",(?=\s*[}\]])")
_MISSING_COMMA = re.compile(rb'(["\d}\]])(\s+|(?<=[}\]]))(?="[\w .%()/]+"\s*:)')
_BAD_ESCAPE = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_QUOTE = re.compile(rb'(?<!\\)"')
_CLOSES = re.compile(rb'\s*(?:,\s*["\[{\d\-tfn]|[\]}]\s*(?:[,\]}]|\Z)|\Z)')
_BLANK_LIMIT = 64
_CLOSES_KEY = re.compile(rb"\s*:")


def _escape_stray_quotes(text: bytes) -> bytes:
    """Escape quotes inside strings: a quote ends a string only where JSON can go on after it."""
    parts: list[bytes] = []
    done = 0
    inside = is_key = False
    for found in _QUOTE.finditer(text):
        at = found.start()
        if not inside:
            before = text[max(0, at - _BLANK_LIMIT) : at].rstrip()[-1:]
            inside, is_key = True, before in (b"{", b",")
        elif _CLOSES.match(text, at + 1) or (is_key and _CLOSES_KEY.match(text, at + 1)):
            inside = False
        else:
            parts.append(text[done:at] + b"\\")
            done = at
    return b"".join(parts) + text[done:]


REPAIRS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("control characters removed", lambda text: _CONTROL.sub(b" ", text)),
    ("invalid UTF-8 replaced", lambda text: text.decode("utf-8", "replace").encode()),
    ("non-finite numbers taken as missing", lambda text: _NON_FINITE.sub(rb"\1null", text)),
    ("out-of-range numbers taken as missing", lambda text: _HUGE_EXPONENT.sub(rb"\1null", text)),
    ("trailing commas removed", lambda text: _TRAILING_COMMA.sub(b"", text)),
    ("bad escapes escaped", lambda text: _BAD_ESCAPE.sub(rb"\\\\", text)),
    ("missing commas added", lambda text: _MISSING_COMMA.sub(rb"\1,\2", text)),
    ("stray quotes escaped", _escape_stray_quotes),
)
