"""What a timeline shows: every slice that can be seen; what is too short or lies too close becomes one busy block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int8, Int64, check_equal_length, freeze
from replay.graph.types import OpKind
from replay.report.slices import Slices

SHOWN = 15_000  # rectangles of a page: some 2 MB, and as many as a browser draws without waiting
FINEST = 100_000  # steps are at first cut this finely, then ever coarser, until the page holds them
COARSER = 1.25


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rectangles of tracks. ``slice`` is the one shown, -1 where ``count`` ops were merged (``busy_ns`` in all)."""

    start_ns: Int64
    end_ns: Int64
    track: Int64
    kind: Int8  # OpKind; ARRIVAL: waiting in a collective
    slice: Int64
    count: Int64
    busy_ns: Int64

    def __post_init__(self) -> None:
        columns = {
            name: getattr(self, name) for name in ("start_ns", "end_ns", "track", "kind", "slice", "count", "busy_ns")
        }
        check_equal_length("Blocks", **columns)
        for column in columns.values():
            freeze(column)

    def __len__(self) -> int:
        return len(self.start_ns)


def blocks(slices: Slices, tracks: Bool, shown: int = SHOWN) -> Blocks:
    """Rectangles of the chosen tracks, at most about ``shown``; a collective is its waiting and then its transfer."""
    pieces = _pieces(slices, tracks)
    if len(pieces) <= shown:
        return pieces
    step = int(pieces.end_ns.max())
    finest = max(step // FINEST, 1)
    merged = _merge(pieces, finest)
    while len(merged) > shown and finest < step:
        finest = int(finest * COARSER) + 1
        merged = _merge(pieces, finest)
    return merged


def _pieces(slices: Slices, tracks: Bool) -> Blocks:
    """Waits and everything else, sorted by track and start."""
    rows = np.flatnonzero(tracks[slices.track])
    waiting = rows[slices.wait_ns[rows] > 0]
    after_wait = np.maximum(slices.wait_ns[rows], 0)
    start = np.concatenate([slices.start_ns[rows] + after_wait, slices.start_ns[waiting]])
    end = np.concatenate([slices.end_ns[rows], slices.start_ns[waiting] + slices.wait_ns[waiting]])
    kind = np.where(slices.kind[rows] == OpKind.ARRIVAL, OpKind.TRANSFER, slices.kind[rows])
    kinds = np.concatenate([kind, np.full(len(waiting), OpKind.ARRIVAL)]).astype(np.int8)
    source = np.concatenate([rows, waiting])
    track = slices.track[source].astype(np.int64)
    seen = np.flatnonzero(end > start)
    order = seen[np.lexsort((start[seen], track[seen]))]
    return Blocks(
        start[order],
        end[order],
        track[order],
        kinds[order],
        source[order],
        np.ones(len(order), np.int64),
        (end - start)[order],
    )


def _merge(pieces: Blocks, finest: int) -> Blocks:
    """Neighbours shorter than ``finest`` that lie no further apart than that, as one block each."""
    small = pieces.end_ns - pieces.start_ns < finest
    joins = small[1:] & small[:-1] & (pieces.track[1:] == pieces.track[:-1])
    joins &= pieces.start_ns[1:] - pieces.end_ns[:-1] < finest
    begin = np.flatnonzero(np.append(True, ~joins))
    count = np.diff(np.append(begin, len(pieces)))
    return Blocks(
        pieces.start_ns[begin],
        np.maximum.reduceat(pieces.end_ns, begin),
        pieces.track[begin],
        _main_kind(pieces, begin, count),
        np.where(count == 1, pieces.slice[begin], -1),
        count,
        np.add.reduceat(pieces.busy_ns, begin),
    )


def _main_kind(pieces: Blocks, begin: Int64, count: Int64) -> Int8:
    """Kind that holds most of each block's time."""
    block = np.repeat(np.arange(len(begin)), count)
    time = np.zeros((len(begin), len(OpKind)), np.int64)
    np.add.at(time, (block, pieces.kind), pieces.busy_ns)
    return np.asarray(time.argmax(axis=1), np.int8)
