"""Pipeline schedules: one file each, found by scanning this folder.

A schedule offers ``NAME``, ``check(p, m, v, g)`` (raises :class:`~replay.core.errors.LayoutError` naming the numbers
that do not fit) and ``order(p, rank, m, v, g)``, the passes of one pipeline rank in the order it executes them.
``p`` is the number of pipeline ranks, ``m`` micro-batches, ``v`` chunks a rank, ``g`` micro-batches per interleaving
group.
"""

from __future__ import annotations

from typing import Protocol, cast

from replay.core.errors import UnknownName
from replay.core.plugins import members
from replay.pipelines._order import ScheduleOrder


class Schedule(Protocol):
    """What every module of this folder offers."""

    NAME: str

    def check(self, p: int, m: int, v: int, g: int) -> None:
        """Raise LayoutError when the schedule cannot run these sizes."""

    def order(self, p: int, rank: int, m: int, v: int, g: int) -> ScheduleOrder:
        """Passes of one pipeline rank in execution order."""


def schedules() -> dict[str, Schedule]:
    """Every schedule of the folder by its NAME."""
    return {module.NAME: cast(Schedule, module) for module in members("replay.pipelines").values()}


def schedule(name: str) -> Schedule:
    """The schedule called ``name``; raises UnknownName with the known ones."""
    known = schedules()
    if name not in known:
        raise UnknownName(f"unknown pipeline schedule {name!r}; known: {', '.join(sorted(known))}")
    return known[name]


__all__ = ["Schedule", "ScheduleOrder", "schedule", "schedules"]
