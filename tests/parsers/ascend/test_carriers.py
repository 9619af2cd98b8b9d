"""Device tasks that carry out collectives; times by hand in us."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

import parsers
from parsers.ascend.carriers import moving_ns
from parsers.ascend.events import AscendArgs, AscendEvent
from parsers.ascend.timed import timed
from replay.trace import Trace
from tests.parsers.ascend import folders as make


def raw(number: int) -> msgspec.Raw:
    """A number as JSON."""
    return msgspec.Raw(str(number).encode())


def moving(*tasks: tuple[str, int, int]) -> int:
    """Of (type, begin, end) in us."""
    events = [
        AscendEvent(name=kind, ts=raw(begin), dur=raw(end - begin), args=AscendArgs(task_type=kind))
        for kind, begin, end in tasks
    ]
    rows = timed(events, Counter())
    return moving_ns(rows, range(len(rows)))


def test_time_in_which_anything_moved() -> None:
    """[10, 30], [20, 50] and [60, 70], whatever the order: 50 us; waiting is apart."""
    tasks = (("Notify Wait", 0, 60), ("SDMA", 60, 70), ("SDMA", 10, 30), ("SDMA", 20, 50))
    assert moving(*tasks) == 50_000


@pytest.mark.parametrize("tasks", [[("SDMA", 0, 10)], [("Notify Wait", 0, 10)], [("AI_CORE", 0, 10)], []])
def test_tasks_that_do_not_tell_waiting_from_moving_tell_nothing(tasks: list[tuple[str, int, int]]) -> None:
    assert moving(*tasks) == -1


def test_level_0_tells_the_transfer_by_the_tasks_of_the_streams(tmp_path: Path) -> None:
    """No planes and no statistics: the all-reduce of 396 us waited for a notify and moved data for 200."""
    make.write(tmp_path, 0, make.level0(), tables=False)
    trace = parsers.read([tmp_path])
    assert isinstance(trace, Trace)
    assert trace.collectives.recorded_transfer_ns.tolist() == [200_000]
