"""One count for the operators of a communicator on all of its ranks.

The count in an operator's name starts with profiling on each rank, so ranks that began at different operators are
shifted against each other. Sought is the shift under which the operators that meet are alike, and of those the one
under which their ends are most evenly apart: members of a collective end together, on clocks that may differ by as much
as they like, but by the same amount each time.

Sends and receives are counted with everything else, but not every rank takes part in them, so collectives are numbered
without them. Operators that the device's own processor launches have counts of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parsers.ascend.groups import Member
from parsers.ascend.hccl import HcclOp
from replay.core.columns import Bool, Float64, Int64
from replay.core.units import NS_PER_US
from replay.trace import MISSING

_FURTHEST = 4096  # counts that ranks may be apart
_SAMPLE = 64  # operators that judge a shift
_AS_EVEN, _AS_EVEN_NS = 1.5, 2 * NS_PER_US  # of the least spread, or beside it: clocks decide between such shifts
_SURE_NS = 50 * NS_PER_US  # members of a collective end as evenly as that
_NEIGHBOURS = 4
_SERVED_FROM = 1 << 40
_Key = tuple[str, bool]  # group, launched by the device's own processor


@dataclass(frozen=True, slots=True)
class _Counted:
    """Operators of one group on one rank, in order of their counts."""

    row: list[int]
    op: list[HcclOp]
    count: Int64


def sequences(ranks: Sequence[dict[int, Member]], sizes: Mapping[str, int]) -> list[dict[int, int]]:
    """For every rank: row → number of its operator, the same on all members; none where no count is to be compared.

    ``sizes`` are those of the groups by name.
    """
    counted = [_counted(own, sizes) for own in ranks]
    codes: dict[tuple[object, ...], int] = {}
    reference: dict[_Key, _Counted] = {}
    lowest: dict[_Key, int] = {}
    shifted: list[dict[_Key, Int64]] = []
    for own in counted:
        shifted.append({})
        for key, ops in own.items():
            shift = _shift(reference[key], ops, codes) if key in reference else 0
            reference.setdefault(key, ops)
            shifted[-1][key] = ops.count + shift
            lowest[key] = min(lowest.get(key, 0), int(shifted[-1][key].min()))
    return [
        {
            row: int(number) - lowest[key] + _SERVED_FROM * key[1]
            for key, numbers in own.items()
            for row, number in zip(counted[at][key].row, numbers.tolist(), strict=True)
        }
        for at, own in enumerate(shifted)
    ]


def _counted(own: dict[int, Member], sizes: Mapping[str, int]) -> dict[_Key, _Counted]:
    """Operators of one rank whose counts can be compared with those of other ranks."""
    found: dict[_Key, list[tuple[int, int]]] = defaultdict(list)
    for row, member in own.items():
        if 0 <= member.op.counter < _SERVED_FROM:
            found[member.group, member.op.served].append((member.op.counter, row))
    groups = {key: _of_group(own, sorted(rows), paired=sizes.get(key[0], 0) == 2) for key, rows in found.items()}
    return {key: ops for key, ops in groups.items() if ops.row}


def _of_group(own: dict[int, Member], rows: list[tuple[int, int]], *, paired: bool) -> _Counted:
    """Operators of one group by (count, row); all of them count where both of two ranks take part in each."""
    passed = np.cumsum([not paired and own[row].op.pairwise for _, row in rows])
    kept = [at for at, (_, row) in enumerate(rows) if paired or not own[row].op.pairwise]
    count = np.array([rows[at][0] for at in kept], np.int64) - passed[kept]
    return _Counted([rows[at][1] for at in kept], [own[rows[at][1]].op for at in kept], count)


def _shift(there: _Counted, here: _Counted, codes: dict[tuple[object, ...], int]) -> int:
    """What to add to the counts of ``here`` for them to agree with those of ``there``."""
    sample = np.unique(np.linspace(0, len(here.op) - 1, _SAMPLE).round().astype(np.int64))
    search = _Search(there, here, sample, codes)
    lowest = max(int(there.count[0] - search.counts[-1]), -_FURTHEST)
    highest = min(int(there.count[-1] - search.counts[0]), _FURTHEST)
    near = search.near()
    found = search.best(near[(near >= lowest) & (near <= highest)])
    if found is None or found.spread_ns > _SURE_NS or 2 * found.met < len(sample):
        found = search.best(np.arange(lowest, highest + 1))
    return 0 if found is None else found.shift


@dataclass(frozen=True, slots=True)
class _Found:
    """A shift, how far its ends are from being evenly apart, and how many operators of the sample meet under it."""

    shift: int
    spread_ns: float
    met: int


class _Search:
    """Some operators of one rank against all of another one."""

    def __init__(self, there: _Counted, here: _Counted, sample: Int64, codes: dict[tuple[object, ...], int]) -> None:
        self.counts, self.kinds = here.count[sample], _kinds(here, codes)[sample]
        self.kinds_there, self.counts_there = _kinds(there, codes), there.count
        self.ends = np.array([here.op[row].end_ns for row in sample.tolist()], np.float64)
        self.ends_there = np.array([op.end_ns for op in there.op], np.float64)

    def near(self) -> Int64:
        """Shifts under which operators meet that end at about the same time on both clocks."""
        order = np.argsort(self.ends_there, kind="stable")
        closest = np.searchsorted(self.ends_there[order], self.ends).clip(0, len(order) - 1)
        middle = self.counts_there[order[closest]] - self.counts
        return np.unique(middle[:, None] + np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1))

    def best(self, shifts: Int64) -> _Found | None:
        """The likeliest of ``shifts``, ``None`` where no operators are alike under any."""
        wanted = self.counts + shifts[:, None]
        place = np.searchsorted(self.counts_there, wanted).clip(0, len(self.counts_there) - 1)
        met = np.where(self.counts_there[place] == wanted, place, -1)
        alike = (met >= 0) & (self.kinds_there[met] == self.kinds)
        likely = _likely(alike, met >= 0)
        if not len(likely):
            return None
        apart = np.where(alike[likely], self.ends_there[met[likely]] - self.ends, np.nan)
        middle = np.nanmedian(apart, axis=1)
        spread: Float64 = np.nanmean(np.abs(apart - middle[:, None]), axis=1)
        even = spread <= max(_AS_EVEN * float(spread.min()), float(spread.min()) + _AS_EVEN_NS)
        choice = np.lexsort((np.abs(shifts[likely]), np.abs(middle), ~even))[0]
        chosen = int(likely[choice])
        return _Found(int(shifts[chosen]), float(spread[choice]), int((met[chosen] >= 0).sum()))


def _likely(alike: Bool, met: Bool) -> Int64:
    """Shifts under which enough operators meet, and no smaller part of them is alike than under any other."""
    many = met.sum(axis=1)
    most = many.max(initial=0)
    enough = (2 * many >= most) & (many >= min(most, 2)) & alike.any(axis=1)  # one is always even
    part = np.where(enough, alike.sum(axis=1) / np.maximum(many, 1), 0)
    return np.flatnonzero(enough & (part >= part.max(initial=0)))


def _kinds(ops: _Counted, codes: dict[tuple[object, ...], int]) -> Int64:
    """A code for what must be equal on all members: not the counts of operators whose parts differ."""
    found = []
    for op in ops.op:
        kind = "pair" if op.pairwise else op.operator.lower()
        found.append(codes.setdefault((kind, MISSING if op.uneven else op.count, op.dtype), len(codes)))
    return np.array(found, np.int64)
