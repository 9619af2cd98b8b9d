"""Durations of the emulated device, from the committed table ``durations.toml``. All results are nanoseconds."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("durations.toml")
_S, _US = 1e9, 1e3


def step(table: Sequence[Sequence[float]], at: float) -> float:
    """Value of the last row of ``[[from, value], …]`` whose ``from`` is not above ``at``."""
    return [value for start, value in table if start <= at][-1]


@dataclass(frozen=True)
class Durations:
    """One function per kind of device work; ``scale`` stretches them all."""

    path: Path = TABLE
    scale: float = 1.0

    @cached_property
    def _table(self) -> dict[str, dict[str, Any]]:
        return tomllib.loads(self.path.read_text())

    def gemm(self, rows: int, columns: int, inner: int) -> int:
        """``tiles·tile_rows·2·columns·inner / rate(rows)``: rows are rounded up to whole tiles."""
        table = self._table["gemm"]
        flop = 2.0 * math.ceil(rows / table["tile_rows"]) * table["tile_rows"] * columns * inner
        return self._ns(flop / step(table["flop_per_s"], rows) * _S + table["launch_us"] * _US)

    def grouped_gemm(self, rows: Sequence[int], columns: int, inner: int) -> int:
        """Sum over experts of a tiled GEMM plus a cost per expert that has rows."""
        table = self._table["grouped_gemm"]
        total = table["launch_us"] * _US
        for count in filter(None, rows):
            tiled = math.ceil(count / table["tile_rows"]) * table["tile_rows"]
            total += (
                2.0 * tiled * columns * inner / step(table["flop_per_s"], count) * _S + table["per_expert_us"] * _US
            )
        return self._ns(total)

    def accumulate(self, elements: int) -> int:
        """Adding a weight gradient to its 32-bit main gradient: read and write 4 bytes an element."""
        return self.memory(8 * elements)

    def attention(self, tokens: int, seq: int, width: int, *, backward: bool) -> int:
        """Causal attention: ``2·tokens·seq·width`` FLOP forward."""
        table = self._table["attention"]
        flop = 2.0 * tokens * seq * width * (table["backward_factor"] if backward else 1.0)
        return self._ns(flop / table["flop_per_s"] * _S + table["launch_us"] * _US)

    def memory(self, nbytes: int) -> int:
        """Memory-bound work that moves ``nbytes``."""
        table = self._table["memory"]
        return self._ns(nbytes / table["bytes_per_s"] * _S + table["launch_us"] * _US)

    def all_to_all(self, nbytes_per_peer: int, size: int, slowness: float = 1.0) -> int:
        """``size - 1`` messages one after the other, each with its latency and a bandwidth by its bytes."""
        return self._ns((size - 1) * self._message(nbytes_per_peer, slowness))

    def point_to_point(self, nbytes: int, slowness: float = 1.0) -> int:
        """One message."""
        return self._ns(self._message(nbytes, slowness))

    def all_reduce(self, nbytes: int, size: int, slowness: float = 1.0) -> int:
        """Ring: ``2(n-1)`` steps, each moves 1/n of the buffer."""
        return self._ns(2 * self._half_ring(nbytes, size, slowness))

    def all_gather(self, nbytes: int, size: int, slowness: float = 1.0) -> int:
        """Ring: ``n-1`` steps, each moves 1/n of the whole buffer; a reduce-scatter takes as long."""
        return self._ns(self._half_ring(nbytes, size, slowness))

    def _half_ring(self, nbytes: int, size: int, slowness: float) -> float:
        table = self._table["ring"]
        moved = (size - 1) / size * nbytes * slowness
        return float(moved / step(table["bytes_per_s"], nbytes) * _S + (size - 1) * table["latency_us"] * _US)

    def _message(self, nbytes: int, slowness: float) -> float:
        """Latency, and bytes over a bandwidth by their number; ``slowness`` stretches the second part."""
        table = self._table["message"]
        return float(slowness * nbytes / step(table["bytes_per_s"], nbytes) * _S + table["latency_us"] * _US)

    def _ns(self, value: float) -> int:
        return round(value * self.scale)
