"""The columns that finding communication needs, and the join of device work to its launch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parsers._rows import CommInfo
from replay.core.columns import Bool, Int8, Int32, Int64
from replay.trace import DEVICE_KINDS, MISSING, EventKind, Group

_CORRELATION_BITS = 40


@dataclass(frozen=True, slots=True)
class CommTable:
    """Rows of a trace, sorted like it."""

    kind: Int8
    name: Int64
    names: tuple[str, ...]
    rank: Int32
    lane: Int64
    start_ns: Int64
    dur_ns: Int64
    correlation: Int64
    shape: Int64
    dtype: Int64
    shapes: tuple[str, ...]
    dtypes: tuple[str, ...]
    comms: dict[int, CommInfo]  # row -> metadata recorded on it
    groups: tuple[Group, ...]  # groups listed by the files' headers

    def name_of(self, row: int) -> str:
        """Name of one row."""
        return self.names[int(self.name[row])]

    @property
    def is_device(self) -> Bool:
        """True for kernels, copies and sets."""
        return np.isin(self.kind, DEVICE_KINDS)

    def launches_of(self, events: Int64) -> Int64:
        """Runtime row with the same rank and correlation as each device event, -1 none."""
        runtime = np.flatnonzero((self.kind == EventKind.RUNTIME) & (self.correlation > 0))
        key = self.join_key(runtime)
        order = np.argsort(key, kind="stable")
        runtime, key = runtime[order], key[order]
        wanted = self.join_key(events)
        at = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
        found = np.full(len(events), MISSING, dtype=np.int64)
        if len(key):
            hit = (key[at] == wanted) & (self.correlation[events] > 0)
            found[hit] = runtime[at[hit]]
        return found

    def join_key(self, rows: Int64) -> Int64:
        """What device work and its launch have in common: rank and correlation in one number."""
        correlation = np.minimum(self.correlation[rows], (1 << _CORRELATION_BITS) - 1)
        key: Int64 = (self.rank[rows].astype(np.int64) << _CORRELATION_BITS) + correlation
        return key
