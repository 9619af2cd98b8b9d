"""Numbers and lists as words: every number with its unit, missing as a dash."""

from __future__ import annotations

import re
from collections.abc import Sequence

from replay.core.words import listed

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
LARGE = 1e7  # from here on numbers are written with an exponent


def ms(value: float | int | None) -> str:
    """Milliseconds; three decimals below 100."""
    return "-" if value is None else f"{value:,.3f} ms" if abs(value) < 100 else f"{value:,.1f} ms"


def pct(value: float | int | None) -> str:
    """Percent, two decimals."""
    return "-" if value is None else f"{value:.2f} %"


def nbytes_words(value: float | int | None) -> str:
    """Bytes with a decimal prefix."""
    if value is None:
        return "-"
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power:
            return f"{value / 10**power:,.2f} {prefix}B"
    return f"{value:.0f} B"


def number(value: float | int | None) -> str:
    """A number without unit, thousands separated."""
    if value is None:
        return "-"
    if abs(value) >= LARGE:
        return f"{value:.4g}"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.4g}"


def known(value: int | str | None) -> str:
    """A size, or a question mark."""
    return "?" if value is None else str(value)


def short(name: str, limit: int = 48) -> str:
    """Kernel names run to kilobytes: keep the beginning, without characters that steer a terminal."""
    name = _CONTROL.sub("?", name)
    return name if len(name) <= limit else name[: limit - 3] + "..."


def counted(items: Sequence[object], noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def ranks_words(ranks: Sequence[int]) -> str:
    """``rank 0``, ``ranks 0, 1``."""
    if not ranks:
        return "no rank told apart"
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {listed([str(rank) for rank in ranks])}"
