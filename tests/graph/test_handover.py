"""Which thread a silent thread waited for; boundaries in µs by hand."""

from __future__ import annotations

import time

import numpy as np

from replay.graph.handover import Activity, Handover, find_handovers

US = 1000


def thread(lane: int, *boundaries_us: int) -> Activity:
    """A thread with events at these times, none of them a busy leaf."""
    return Activity(lane, np.array(boundaries_us, np.int64) * US, np.zeros(0, np.int64))


def test_the_newest_thread_that_stays_silent_is_the_one_waited_for() -> None:
    """Of threads that fall silent at 60, 90 and 90, the first of the two newest; one that goes on at 105 is none."""
    waiter = thread(0, 0, 10, 100, 101)
    others = (thread(1, 0, 15, 60), thread(2, 0, 15, 90), thread(3, 0, 15, 90), thread(4, 0, 15, 95, 105))
    mine = [found for found in find_handovers((waiter, *others)) if found.waiter == 0]
    assert mine == [Handover(0, 10 * US, 100 * US, 2, 90 * US)]


def test_thousands_of_threads_take_no_minutes() -> None:
    """Each of 3000 threads that act once was compared with every other for half a minute."""
    threads = tuple(thread(lane, 0, 10 * lane + 10, 10 * lane + 15) for lane in range(3000))
    begin = time.perf_counter()
    assert len(find_handovers(threads)) > 0
    assert time.perf_counter() - begin < 10
