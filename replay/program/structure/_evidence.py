"""What finders are given, and what they return."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Int64
from replay.graph.types import Graph
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.open_ranges import FIELDS, UNSAID, inside
from replay.program.origins import Origins
from replay.program.structure._autograd import Autograd
from replay.program.structure._calls import Calls
from replay.trace import Trace

UNKNOWN_PASS = -1


@dataclass(frozen=True, slots=True)
class Evidence:
    """A step and what is known of it so far. Op columns have one row per op of the graph.

    ``states`` has the columns :data:`~replay.program.open_ranges.FIELDS`; unsaid fields are those of ``UNSAID``.
    ``passes`` numbers the forward and backward passes of each rank, each phase for itself, in the order in which the
    rank begins them; a pass is one micro-batch in one chunk. -1: not known, or in no pass.
    ``layout.microbatches`` and ``model.layers`` hold what the user or a run description says, ``None`` if nobody does.
    ``assumed`` names the sizes of the layout that nothing states: what the step shows wins over them.
    """

    graph: Graph
    trace: Trace
    places: Origins
    calls: Calls
    engine: Autograd
    layout: Layout
    model: ModelSpec
    states: Int64
    passes: Int64
    assumed: frozenset[str] = frozenset()

    def said(self, field: str) -> Int64:
        """One field of every op's state."""
        return np.asarray(self.states[:, FIELDS.index(field)])

    def with_finding(self, finding: Finding) -> Evidence:
        """This evidence completed by ``finding`` where it says nothing yet.

        A pass is taken only with the phase it belongs to.
        """
        states = inside(self.states, finding.states)
        phase = FIELDS.index("phase")
        agreed = (self.passes == UNKNOWN_PASS) & (finding.states[:, phase] == states[:, phase])
        passes = np.where(agreed, finding.passes, self.passes)
        return replace(self, states=states, passes=passes, layout=finding.layout or self.layout)

    def nothing(self) -> Finding:
        """A finding that says nothing."""
        n = len(self.graph)
        return Finding(np.tile(UNSAID, (n, 1)), np.full(n, UNKNOWN_PASS, np.int64), ())


@dataclass(frozen=True, slots=True)
class Finding:
    """What one kind of evidence says of every op, and the sentences that tell how it is known."""

    states: Int64  # columns FIELDS
    passes: Int64  # as Evidence.passes; only where ``states`` say the phase of the pass
    sentences: tuple[str, ...]
    layout: Layout | None = None  # the evidence's, with sizes that it did not know
