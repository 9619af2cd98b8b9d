"""EdgeList: what every rule returns; columns that are concatenated and sorted once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int8, Int64
from replay.graph.types import Rule


@dataclass(frozen=True, slots=True)
class EdgeList:
    """Edges of one or more rules; ``source`` and ``target`` are ops, the lag is in ns."""

    source: Int64
    target: Int64
    lag_ns: Int64
    from_start: Bool
    rule: Int8
    recorded: Bool

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def of(
        cls,
        rule: Rule,
        source: Iterable[int] | Int64,
        target: Iterable[int] | Int64,
        *,
        lag_ns: Int64 | int = 0,
        from_start: bool = False,
        recorded: Bool | bool = True,
    ) -> EdgeList:
        """Edges of one rule; scalars are spread over all of them."""
        src = np.asarray(source if isinstance(source, np.ndarray) else list(source), np.int64)
        dst = np.asarray(target if isinstance(target, np.ndarray) else list(target), np.int64)
        n = len(src)
        return cls(
            src,
            dst,
            np.broadcast_to(np.asarray(lag_ns, np.int64), n).copy(),
            np.full(n, from_start, np.bool_),
            np.full(n, rule, np.int8),
            np.broadcast_to(np.asarray(recorded, np.bool_), n).copy(),
        )

    @classmethod
    def concat(cls, lists: Iterable[EdgeList]) -> EdgeList:
        """All edges, in order."""
        parts = list(lists)
        if not parts:
            return cls.of(Rule.DATA, [], [])
        return cls(
            np.concatenate([p.source for p in parts]),
            np.concatenate([p.target for p in parts]),
            np.concatenate([p.lag_ns for p in parts]),
            np.concatenate([p.from_start for p in parts]),
            np.concatenate([p.rule for p in parts]),
            np.concatenate([p.recorded for p in parts]),
        )

    def take(self, keep: Bool | Int64) -> EdgeList:
        """A subset of the edges."""
        return EdgeList(
            self.source[keep],
            self.target[keep],
            self.lag_ns[keep],
            self.from_start[keep],
            self.rule[keep],
            self.recorded[keep],
        )

    def with_lag(self, where: Bool, lag_ns: int) -> EdgeList:
        """The same edges with one lag for those in ``where``."""
        lag = np.where(where, lag_ns, self.lag_ns)
        return EdgeList(self.source, self.target, lag, self.from_start, self.rule, self.recorded)

    def plus_lag(self, extra_ns: Int64) -> EdgeList:
        """The same edges, each lag longer by its row of ``extra_ns``."""
        return EdgeList(self.source, self.target, self.lag_ns + extra_ns, self.from_start, self.rule, self.recorded)
