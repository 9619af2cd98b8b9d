"""Which rank each file is: as recorded, else as named, else by order; and whether the files are of one run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from replay.core.errors import TraceError
from replay.core.units import NS_PER_S
from replay.trace import MISSING

_IN_NAME = re.compile(r"(?:rank|worker)[-_]?(\d+)", re.IGNORECASE)
_APART_NS = 60 * NS_PER_S  # clocks of nodes differ by milliseconds; recordings a minute apart are not of one step


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What tells the rank of a file and whether it belongs to the others. Times are 0 where not absolute."""

    file: str
    rank: int = MISSING
    world_size: int = MISSING
    first_ns: int = 0
    last_ns: int = 0


def number_ranks(files: Sequence[FileFacts]) -> tuple[list[int], tuple[str, ...]]:
    """(rank of every file, warnings). Raises :class:`TraceError` naming two files that cannot be of one run."""
    _check_one_run(files)
    recorded = [file.rank for file in files]
    named = [rank_in_name(file.file) for file in files]
    if MISSING not in recorded and _distinct(recorded):
        return recorded, ()
    mixed = [rank if rank != MISSING else name for rank, name in zip(recorded, named, strict=True)]
    if MISSING not in mixed and _distinct(mixed):
        return mixed, ()
    if MISSING not in named and _distinct(named):
        return named, ("the recorded ranks collide; ranks were taken from the file names",)
    if all(rank == MISSING for rank in recorded):
        warnings = () if len(files) == 1 else ("no file tells its rank; files were numbered in the order given",)
        return list(range(len(files))), warnings
    raise _collision(files, mixed)


def rank_in_name(name: str) -> int:
    """Rank that a file or folder name tells, -1 none."""
    found = _IN_NAME.search(name)
    return int(found[1]) if found else MISSING


def _distinct(ranks: Sequence[int]) -> bool:
    return len(set(ranks)) == len(ranks)


def _collision(files: Sequence[FileFacts], ranks: Sequence[int]) -> TraceError:
    counts = Counter(ranks)
    rank = next((rank for rank in ranks if rank == MISSING or counts[rank] > 1), MISSING)
    if rank == MISSING:
        return TraceError(f"{files[ranks.index(rank)].file}: no rank in the file or its name, but other files have one")
    same = [file.file for file, other in zip(files, ranks, strict=True) if other == rank]
    return TraceError(f"{same[0]} and {same[1]} both say they are rank {rank}; give the files of one run, one a rank")


def _check_one_run(files: Sequence[FileFacts]) -> None:
    sized = [file for file in files if file.world_size != MISSING]
    for file in sized[1:]:
        if file.world_size != sized[0].world_size:
            raise TraceError(
                f"{sized[0].file} is of a run with {sized[0].world_size} ranks and {file.file} of one with "
                f"{file.world_size}; give the files of one run"
            )
    timed = sorted((file for file in files if file.first_ns > 0), key=lambda file: file.first_ns)
    for before, after in pairwise(timed):
        apart = after.first_ns - before.last_ns
        if apart > _APART_NS:
            raise TraceError(
                f"{before.file} and {after.file} were recorded {apart / NS_PER_S:.0f} s apart; give the files of one "
                "step of one run"
            )
