"""Exact decimal microseconds to integer nanoseconds, from the text itself: a float64 cannot hold 17 digits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from replay.core.columns import Bool, Int64
from replay.core.jit import kernel

NS_DIGITS = 3  # decimals of a microsecond that are whole nanoseconds
MAX_EXPONENT = 40


def us_to_ns(texts: Sequence[bytes | memoryview]) -> tuple[Int64, Bool]:
    """(nanoseconds, valid) of decimal microseconds given as JSON numbers or strings of them.

    Digits beyond the nanosecond are rounded half up (away from zero); empty, malformed and out-of-range texts are
    invalid and 0.
    """
    joined = b"\n".join(texts) + b"\n" if texts else b""
    return _parse(np.frombuffer(joined, dtype=np.uint8), len(texts))


@kernel
def _parse(text: npt.NDArray[np.uint8], count: int) -> tuple[Int64, Bool]:  # noqa: C901, PLR0912, PLR0915 - one state machine
    values = np.zeros(count, dtype=np.int64)
    valid = np.zeros(count, dtype=np.bool_)
    limit = np.int64(922337203685477579)  # a digit more may overflow int64
    at = 0
    for row in range(count):
        value = np.int64(0)
        digits = 0
        decimals = 0  # decimals taken into value
        after_point = False
        round_up = False
        rounding_seen = False
        negative = False
        bad = False
        exponent = 0
        exponent_sign = 1
        in_exponent = False
        begin = at
        while text[at] != 10:
            c = text[at]
            if 48 <= c <= 57:
                d = np.int64(c - 48)
                if in_exponent:
                    exponent = min(exponent * 10 + d, 1000)
                elif value >= limit:
                    if after_point:
                        if not rounding_seen:
                            rounding_seen = True
                            round_up = d >= 5
                    else:
                        bad = True
                else:
                    value = value * 10 + d
                    digits += 1
                    if after_point:
                        decimals += 1
            elif c == 46 and not after_point and not in_exponent:
                after_point = True
            elif c == 45:
                if in_exponent and (text[at - 1] == 101 or text[at - 1] == 69):
                    exponent_sign = -1
                elif digits == 0 and not negative and not after_point:
                    negative = True
                else:
                    bad = True
            elif c == 43:
                bad = bad or not (at == begin or text[at - 1] == 101 or text[at - 1] == 69 or text[at - 1] == 34)
            elif (c == 101 or c == 69) and digits > 0 and not in_exponent:
                in_exponent = True
            elif c != 34 and c != 32 and c != 9:
                bad = True
            at += 1
        at += 1
        shift = 3 - decimals + exponent_sign * exponent
        while shift > 0 and not bad and value != 0:
            if value >= limit:
                bad = True
            value *= 10
            shift -= 1
        while shift < 0 and value != 0:
            round_up = value % 10 >= 5
            value //= 10
            shift += 1
        if digits == 0 or bad:
            continue
        if round_up:
            value += 1
        values[row] = -value if negative else value
        valid[row] = True
    return values, valid
