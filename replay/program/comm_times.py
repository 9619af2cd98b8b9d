"""Collectives of a block under another layout: other groups, other bytes, on the links that the input shows.

A collective that was measured keeps its time, times model(new) / model(old) for its messages and bytes (R1). One that
ran on a rank alone (:mod:`replay.program.lone_groups`) takes what the links say, else an assumed one. Exchanges of
tokens, and what another ep does to sums of expert gradients, are re-timed on the ops themselves
(:mod:`replay.whatif.ep`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from replay.core.columns import Bool, Float64, Int8, Int64
from replay.core.evidence import Grade
from replay.graph.types import OpKind
from replay.layout import Layout
from replay.program.assumed_link import AssumedLink
from replay.program.groups import Family, members
from replay.program.keys import P2P_PARTS, BlockKey
from replay.program.links import Links, Moved
from replay.program.templates import Program
from replay.trace import CollectiveKind


@dataclass(frozen=True, slots=True)
class Bytes:
    """Factors on the bytes of a block's ops: in all, and the part that is due to other layers in the chunk."""

    nbytes: Float64
    chunk: Float64


@dataclass(frozen=True)
class CommTimes:
    """Times collectives of ``program`` for ``target``.

    ``load`` is, per op of the source, how much a new exchange carries beside the mean; ``assumed`` is the link where
    ``links`` know none, and ``note`` takes what is assumed.
    """

    program: Program
    target: Layout
    links: Links
    load: Float64
    assumed: AssumedLink
    note: Callable[[str], None]

    def of_block(self, ops: Int64, size: Bytes, place: tuple[BlockKey, int], rank: int) -> tuple[Float64, Int64, Int8]:
        """Factors on the durations of ``ops``, nanoseconds to add to them, and their grades.

        ``place`` is the block in the target, ``rank`` the one whose ops these are.
        """
        factor, added, grade = np.ones(len(ops)), np.zeros(len(ops), np.int64), np.zeros(len(ops), np.int8)
        for at in np.flatnonzero(self._moving[ops]).tolist():
            op = int(ops[at])
            family = self.program.families[self.program.graph.comm[op]]
            if family is None:
                continue
            before, after = members(self.program.layout, family, rank), members(self.target, family, place[1])
            if len(before) == 1 < len(after):
                added[at], grade[at] = self._alone(op, float(size.nbytes[at]), after)
            elif place[0].part not in P2P_PARTS and family.name != "ep":
                factor[at], grade[at] = self._measured(op, family, (before, after), size, at)
        return factor, added, grade

    @cached_property
    def changes(self) -> bool:
        """Whether any group of the target has another size than in the source."""
        names = ("tp", "cp", "pp", "dp", "ep", "etp")
        return any(getattr(self.program.layout, name) != getattr(self.target, name) for name in names)

    @cached_property
    def _moving(self) -> Bool:
        graph = self.program.graph
        return np.asarray((graph.kind == OpKind.TRANSFER) & (graph.comm >= 0))

    def _moved(self, op: int, scale: float, ranks: tuple[int, ...]) -> Moved:
        comms, row = self.program.graph.comms, self.program.graph.comm[op]
        return Moved(CollectiveKind(int(comms.kind[row])), float(comms.nbytes[row]) * scale, ranks)

    def _alone(self, op: int, scale: float, after: tuple[int, ...]) -> tuple[int, Grade]:
        """Time of a collective that the source's rank ran with nobody."""
        kind = CollectiveKind(int(self.program.graph.comms.kind[self.program.graph.comm[op]]))
        ranks = after[:2] if kind in (CollectiveKind.SEND, CollectiveKind.RECV) else after
        moved = self._moved(op, scale * float(self.load[op]), ranks)
        found = self.links.time_ns(moved)
        if found is None:
            self.note(self.assumed.note)
            return round(self.assumed.time_ns(moved)), Grade.ASSUMED
        return round(found[0]), max(found[1], Grade.EXTRAPOLATED)

    def _measured(
        self, op: int, family: Family, groups: tuple[tuple[int, ...], tuple[int, ...]], size: Bytes, at: int
    ) -> tuple[float, Grade]:
        """New over old time of a collective that was measured."""
        before, after = groups
        nbytes, chunk = float(size.nbytes[at]), float(size.chunk[at])
        if family.name == "edp" and self.program.layout.ep != self.target.ep:
            old, new = self._moved(op, nbytes / chunk if chunk else 0.0, after), self._moved(op, nbytes, after)
        elif len(before) == len(after) and nbytes == 1:
            return 1.0, Grade.MEASURED
        else:
            old, new = self._moved(op, 1.0, before), self._moved(op, nbytes, after)
        if old.nbytes > 0:
            return self.links.ratio(old, new)
        sent_before, sent_after = (len(ranks) - 1 for ranks in (old.ranks, new.ranks))
        ring = sent_after / len(new.ranks) * len(old.ranks) / sent_before if sent_before else 1.0
        return ring * (chunk if old.ranks == new.ranks else nbytes), Grade.ASSUMED
