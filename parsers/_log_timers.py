"""Timer blocks: ``time (ms) | name: 12.3 | ...`` of one rank, and blocks of several lines over the ranks.

Values are means over the logged interval. Source: Megatron-LM ``timers.py``, tags v1.0 to core 0.19.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_MS = r"\d{1,15}(?:\.\d*)?"
_LINE = re.compile(r"time \(ms\)(.*)$")
_PAIR = re.compile(rf"\|\s*([^|:]+): ({_MS})(?=\s*\||\s*$)")
_HEADER = "across ranks (ms):"
_ROW = re.compile(rf"(?:^|\s)([A-Za-z][\w/-]*(?: [\w/-]+)*) \.*: ?(?:\(({_MS}), ({_MS})\)|({_MS}))\s*$")
_NAME = re.compile(r"^\s*(?:\S+:\s)?\s+([A-Za-z][\w/-]*):\s*$")
_RANK = re.compile(rf"\srank\s+\d+: ({_MS})\s*$")
LONGEST_BLOCK = 100_000  # rows after a header; other output may lie between them
LONGEST_ROW = 400


@dataclass(frozen=True, slots=True)
class Timer:
    """Milliseconds; ``mean`` is ``None`` where only the range over ranks is given."""

    name: str
    low: float
    high: float
    mean: float | None


@dataclass(slots=True)
class TimerBlocks:
    """Reads timers line by line; a block ends where the caller says (the next iteration line)."""

    _rows_left: int = 0
    _name: str = ""
    _ranks: dict[str, list[float]] = field(default_factory=dict)

    def feed(self, text: str) -> Iterator[Timer]:
        """Timers that a line completes."""
        if "time (ms)" in text and (line := _LINE.search(text)):
            for name, value in _PAIR.findall(line[1]):
                yield Timer(name.strip(), float(value), float(value), float(value))
        elif _HEADER in text:
            yield from self.close()
            self._rows_left = LONGEST_BLOCK
        elif self._rows_left and len(text) <= LONGEST_ROW:
            self._rows_left -= 1
            yield from self._row(text)

    def close(self) -> Iterator[Timer]:
        """Timers that were listed rank by rank, complete now that their block ended."""
        for name, values in self._ranks.items():
            yield Timer(name, min(values), max(values), sum(values) / len(values))
        self._rows_left, self._name = 0, ""
        self._ranks.clear()

    def _row(self, text: str) -> Iterator[Timer]:
        if row := _ROW.search(text):
            name, low, high, single = row.groups()
            if single is None:
                yield Timer(name, float(low), float(high), None)
            else:  # option `max`: 23.04 prints it under the header of a range
                yield Timer(name, float(single), float(single), None)
        elif self._name and (rank := _RANK.search(text)):
            self._ranks.setdefault(self._name, []).append(float(rank[1]))
        elif name_line := _NAME.match(text):
            self._name = name_line[1]
