"""Exact numbers from JSON text: decimal microseconds to integer nanoseconds, never by way of a float64 (17 digits)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from replay.core.columns import Bool, Int64
from replay.core.jit import kernel
from replay.trace import MISSING

Scalar = bool | int | float | str | None
INT64_MAX = 2**63 - 1
_LIMIT = INT64_MAX // 10 - 1  # one more digit may not fit
_NEWLINE, _SPACE, _QUOTE, _PLUS, _MINUS, _POINT, _ZERO, _NINE = (ord(c) for c in '\n "+-.09')
_EXPONENT_MARKS = (ord("e"), ord("E"))
_MAX_EXPONENT = 1000


def us_to_ns(texts: Sequence[bytes | memoryview]) -> tuple[Int64, Bool]:
    """(nanoseconds, valid) of decimal microseconds given as JSON numbers or as strings of them.

    Rounded half up in magnitude beyond the nanosecond. Empty, malformed and out-of-range texts are 0 and invalid.
    """
    joined = b"\n".join(texts) + b"\n" if texts else b""
    return _parse(np.frombuffer(joined, dtype=np.uint8), len(texts))


def ns_text(ns: int) -> bytes:
    """Nanoseconds as exact decimal microseconds."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}".encode()


def integer(value: Scalar) -> int:
    """A JSON scalar as an int64, ``MISSING`` where it is none."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return MISSING
    if value is None or isinstance(value, bool) or not -INT64_MAX <= value <= INT64_MAX:
        return MISSING
    return int(value)


def integers(values: Sequence[Scalar]) -> Int64:
    """A column of :func:`integer`."""
    try:
        column = np.array(values)
    except (ValueError, OverflowError):
        column = np.zeros(0)
    if column.dtype == np.int64:
        return column
    return np.array([integer(value) for value in values], dtype=np.int64)


@kernel
def _parse(text: npt.NDArray[np.uint8], count: int) -> tuple[Int64, Bool]:
    values = np.zeros(count, dtype=np.int64)
    valid = np.zeros(count, dtype=np.bool_)
    begin = 0
    for row in range(count):
        end = begin
        while text[end] != _NEWLINE:
            end += 1
        first, last = begin, end
        while first < last and text[first] in (_SPACE, _QUOTE, _PLUS):
            first += 1
        while first < last and text[last - 1] in (_SPACE, _QUOTE):
            last -= 1
        values[row], valid[row] = _nanoseconds(text, first, last)
        begin = end + 1
    return values, valid


@kernel
def _nanoseconds(text: npt.NDArray[np.uint8], at: int, end: int) -> tuple[int, bool]:
    negative = at < end and text[at] == _MINUS
    at += negative
    value, shift, digits = 0, 3, 0  # the result is value · 10^shift
    after_point = dropped = half = False
    while at < end and (text[at] == _POINT or _ZERO <= text[at] <= _NINE):
        if text[at] == _POINT:
            if after_point:
                return 0, False
            after_point = True
        elif value > _LIMIT:
            half = half if dropped else text[at] - _ZERO >= 5
            dropped = True
            shift += not after_point
        else:
            value = value * 10 + int(text[at] - _ZERO)
            digits += 1
            shift -= after_point
        at += 1
    exponent, complete = _exponent(text, at, end)
    if digits == 0 or not complete:
        return 0, False
    shift += exponent
    while shift > 0 and value > 0:
        if value > _LIMIT:
            return 0, False
        value *= 10
        shift -= 1
    while shift < 0 and (value > 0 or half):
        half = value % 10 >= 5
        value //= 10
        shift += 1
    value += half
    return -value if negative else value, True


@kernel
def _exponent(text: npt.NDArray[np.uint8], at: int, end: int) -> tuple[int, bool]:
    """Value of an exponent that ends the number; (0, True) where there is none."""
    if at == end:
        return 0, True
    if text[at] not in _EXPONENT_MARKS:
        return 0, False
    at += 1
    negative = at < end and text[at] == _MINUS
    at += at < end and text[at] in (_PLUS, _MINUS)
    value = 0
    first = at
    while at < end and _ZERO <= text[at] <= _NINE:
        value = min(value * 10 + int(text[at] - _ZERO), _MAX_EXPONENT)
        at += 1
    return -value if negative else value, at == end and at > first
