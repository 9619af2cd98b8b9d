"""Passes from the order of device work: a pass ends where the direction changes or a pipeline transfer is posted."""

from __future__ import annotations

from collections import Counter

import numpy as np

from replay.core.columns import Bool, Int64
from replay.program.keys import PASS_PHASES
from replay.program.open_ranges import FIELDS
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence, Finding
from replay.program.structure._sequence import Sequence, around, sequences
from replay.program.template_ids import row_ids
from replay.program.types import Phase

ORDER = 45
PHASE = FIELDS.index("phase")

_MOST_UNKNOWN = 0.1  # of the ops from the first pass to the last
_STRAY = 0.1  # of the median number of ops in passes of that phase: less is no pass of its own


def find(evidence: Evidence) -> Finding:
    """Number of the pass of every device op, on ranks where nothing has numbered passes yet."""
    finding, phase = evidence.nothing(), evidence.said("phase")
    counts: Counter[str] = Counter()
    for sequence in sequences(evidence):
        if (evidence.passes[sequence.op] != UNKNOWN_PASS).any() or _overlapped(evidence, sequence):
            continue
        found = passes_of(sequence, np.where(_own(evidence, sequence), phase[sequence.op], Phase.NONE))
        finding.passes[sequence.op] = found
        told = [(one, found[phase[sequence.op] == one].max(initial=-1) + 1) for one in PASS_PHASES]
        counts[" and ".join(f"{n} {one.name.lower()}" for one, n in told if n)] += 1
    finding.states[:, PHASE] = np.where(finding.passes != UNKNOWN_PASS, phase, Phase.NONE)
    words = [f"{passes} on {ranks} {'rank' if ranks == 1 else 'ranks'}" for passes, ranks in counts.items() if passes]
    sentence = f"passes, cut where the direction changes and at pipeline transfers: {'; '.join(words)}"
    return Finding(finding.states, finding.passes, (sentence,) if words else ())


def _overlapped(evidence: Evidence, sequence: Sequence) -> bool:
    """Ranges name the layers of most work, and every part of a layer comes once in a phase.

    Directions that alternate within that are one forward and one backward pass that overlap (DualPipe), not many.
    """
    op = sequence.op[sequence.compute]
    phase, layer, role, event = (evidence.said(field)[op] for field in ("phase", "layer", "role", "event"))
    known = np.flatnonzero((layer >= 0) & np.isin(phase, PASS_PHASES) & (event >= 0))
    if 2 * len(known) < len(op) or not len(known):
        return False
    part = row_ids(phase[known], layer[known], role[known])
    return len(np.unique(part)) == len(np.unique(row_ids(part, event[known])))


def _own(evidence: Evidence, sequence: Sequence) -> Bool:
    """Work launched in the step; devices may still run what was launched before it."""
    window = evidence.places.window_ns(sequence.rank)
    begin = window[0] if window else 0
    return np.asarray(evidence.places.time_ns[sequence.op] >= begin)


def passes_of(sequence: Sequence, phase: Int64) -> Int64:
    """Pass number of every op of a sequence, counted per phase in order of begin; -1 outside of passes."""
    inside = np.flatnonzero(sequence.compute & np.isin(phase, PASS_PHASES))
    number = np.full(len(phase), UNKNOWN_PASS, np.int64)
    if not len(inside) or _sparse(sequence, phase, inside):
        return number
    cut = sequence.cuts()
    begins = np.r_[True, (np.diff(phase[inside]) != 0) | (np.diff(cut[inside]) != 0)]
    stretch = np.cumsum(begins) - 1
    stretch_phase = phase[inside[begins]]
    length = np.bincount(stretch)
    counted = _whole(length, stretch_phase)
    of_stretch = np.full(len(length), UNKNOWN_PASS, np.int64)
    for one in np.unique(stretch_phase):
        rows = np.flatnonzero((stretch_phase == one) & counted)
        of_stretch[rows] = np.arange(len(rows))
    _spread(number, inside, of_stretch[stretch], sequence, phase)
    return number


def _sparse(sequence: Sequence, phase: Int64, inside: Int64) -> bool:
    """Too much work among passes has no phase for what has one to be whole passes."""
    between = slice(inside[0], inside[-1] + 1)
    unknown = sequence.compute[between] & (phase[between] == Phase.NONE)
    return float(unknown.mean()) > _MOST_UNKNOWN


def _whole(length: Int64, phase: Int64) -> Int64:
    """Stretches long enough to be a pass of their phase."""
    usual = np.zeros(len(length))
    for one in np.unique(phase):
        usual[phase == one] = np.median(length[phase == one])
    return np.asarray(length >= _STRAY * usual)


def _spread(number: Int64, inside: Int64, found: Int64, sequence: Sequence, phase: Int64) -> None:
    """Give every op of a pass's phase the number of the compute op of that phase before it, else after it."""
    number[inside] = found
    index = np.arange(len(phase))
    computed = np.isin(index, inside)
    before, after = around(computed)
    cut = sequence.cuts()
    for near in (np.minimum(after, len(index) - 1), np.maximum(before, 0)):
        fits = ~computed & ~sequence.transfer & (phase[near] == phase) & (cut[near] == cut)
        number[fits] = number[near[fits]]
