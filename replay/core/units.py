"""Units at the edges. Inside, time is integer nanoseconds and size is bytes; decimal prefixes mean powers of ten."""

from __future__ import annotations

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
GIB = 1 << 30
NS_PER = {"ns": 1, "us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}
"""Nanoseconds of a unit by its symbol."""


def ns_to_ms(ns: float) -> float:
    """Nanoseconds to milliseconds."""
    return float(ns) / NS_PER_MS


def percent(part: float, whole: float) -> float:
    """``part`` in percent of ``whole``; 0 of nothing is 0, something of nothing is a ``ZeroDivisionError``."""
    if part == 0:
        return 0.0
    return 100.0 * float(part) / float(whole)
