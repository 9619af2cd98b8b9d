"""Micro-batch numbers by occurrence, where ranges name whole passes but no micro-batch."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from replay.program.open_ranges import is_range
from replay.program.origins import Origins
from replay.program.ranges import MISSING, RangeMeaning, read_range
from replay.program.types import Phase, Role
from replay.trace import Trace

WHOLE = (Role.NONE, Role.P2P)
"""Roles of ranges that span a pass, or the transfer before or after one."""


def number_passes(trace: Trace, places: Origins) -> dict[int, RangeMeaning]:
    """Meaning, with micro-batch and chunk 0, of every unnumbered pass range (by trace event) of the step.

    With one chunk a rank, every schedule takes micro-batches in order in both phases: the k-th forward, backward, send
    or receive of a rank is that of micro-batch k. A single pass is left alone: it says nothing about micro-batches.
    """
    by_name = [read_range(name) for name in trace.names]
    ranges = is_range(trace)
    bare = np.array([_is_bare_pass(meaning) for meaning in by_name], dtype=np.bool_)
    passes: dict[tuple[int, str], list[int]] = defaultdict(list)
    for rank in np.unique(places.rank):
        window = places.window_ns(int(rank))
        if window is None:
            continue
        inside = (trace.rank == rank) & ranges & bare[trace.name]
        inside &= (trace.end_ns > window[0]) & (trace.start_ns <= window[1])
        for event in np.flatnonzero(inside).tolist():  # in order of begin
            passes[int(rank), trace.name_of(event)].append(event)
    return {
        event: RangeMeaning(microbatch=k, chunk=0).inside(by_name[trace.name[event]])
        for events in passes.values()
        if len(events) > 1
        for k, event in enumerate(events)
    }


def _is_bare_pass(meaning: RangeMeaning) -> bool:
    passing = meaning.phase in (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHT) and meaning.role in WHOLE
    return passing and meaning.microbatch == meaning.chunk == meaning.layer == MISSING
