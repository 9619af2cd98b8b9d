"""What is uncertain about durations moves the prediction as far as it may, and no further."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind, Rule
from replay.program.retiming import Retiming
from replay.session.brackets import lateness_part, retiming_part, transfer_part
from replay.trace import CollectiveKind
from tests.synthetic import Comm, Op, graph_of


def one_op_halved(low: float, high: float, grade: Grade) -> Retiming:
    """An op that takes half its time, within a bracket."""
    columns = [np.array([value]) for value in (0.5, low, high)]
    return Retiming(*columns, np.array([grade], np.int8), np.zeros(1, np.int32), ("halved",))


def test_bracket_and_grade_widen_a_retimed_duration() -> None:
    """100 -> 50 in [40, 60], scaled: 20 % of the change of 50 is 10, so 30 to 70 around 50."""
    target = graph_of([Op("gemm", 50)])
    part = retiming_part(target, one_op_halved(0.4, 0.6, Grade.SCALED), np.zeros(1, np.int64))
    assert (part.low, part.high) == (pytest.approx(0.4), pytest.approx(0.4))


def test_an_unchanged_duration_has_no_width() -> None:
    """Changing nothing changes nothing, whatever the grade."""
    graph = graph_of([Op("gemm", 50)])
    part = retiming_part(graph, Retiming.identity(graph), np.zeros(1, np.int64))
    assert (part.low, part.high) == (0.0, 0.0)


def compute_then_transfer(high: int) -> Graph:
    """900 ns of compute, then a transfer of 100 ns that may have taken up to ``high``."""
    ops = [Op("gemm", 900), Op("all_reduce", 100, [0], kind=OpKind.TRANSFER, comm=0)]
    graph = graph_of(ops, comms=[Comm(CollectiveKind.ALL_REDUCE)])
    bounds = {"transfer_low_ns": np.array([100]), "transfer_high_ns": np.array([high])}
    return replace(graph, comms=replace(graph.comms, **bounds))


def test_a_transfer_that_may_be_longer_moves_the_ratio() -> None:
    """Without the compute: (100 + 40) / (1000 + 40) against 100 / 1000, 34.6 % more."""
    source = compute_then_transfer(140)
    target = graph_of([Op("all_reduce", 100)])
    part = transfer_part(source, target, np.array([1]), 0.1)
    assert part.low == 0.0
    assert part.high == pytest.approx(140 / 1040 / 0.1 - 1)


def test_a_bracket_end_that_contradicts_the_measurement_is_approached_only() -> None:
    """740 ns would make 1000 ns 1640: 640 more is halved until the source moves by 5 % at most, to 40 more."""
    source = compute_then_transfer(740)
    target = graph_of([Op("all_reduce", 100)])
    part = transfer_part(source, target, np.array([1]), 0.1)
    assert part.high == pytest.approx(140 / 1040 / 0.1 - 1)


def waiting_for_an_unseen_rank(compute: int, times: int = 1) -> Graph:
    """Compute, then 300 ns of waiting for a rank outside of the input, then 100 ns of transfer; ``times`` over."""
    ops: list[Op] = []
    for comm in range(times):
        at = len(ops)
        ops += [
            Op("gemm", compute, [at - 1] if at else []),
            Op("all_reduce", 0, [at], kind=OpKind.ARRIVAL, comm=comm),
            Op("all_reduce", 100, [(at + 1, 300)], kind=OpKind.TRANSFER, comm=comm, rule=Rule.COLLECTIVE),
        ]
    return graph_of(ops, comms=[Comm(CollectiveKind.ALL_REDUCE)] * times)


def test_unseen_ranks_may_change_as_the_others_do() -> None:
    """600 -> 100 ns of compute: 500 of 1000 with the peer as late; r = (200 + 300 r) / 1000 with it as fast: 2 / 7."""
    part = lateness_part(waiting_for_an_unseen_rank(600), waiting_for_an_unseen_rank(100), 1000, 0.5)
    assert part.low == pytest.approx(1 - 2 / 7 / 0.5, abs=0.005)
    assert part.high == 0.0


def test_unseen_ranks_as_late_as_measured_have_no_width() -> None:
    """Changing nothing changes nothing."""
    source = waiting_for_an_unseen_rank(600)
    part = lateness_part(source, source, 1000, 1.0)
    assert (part.low, part.high) == (0.0, 0.0)


def test_twice_the_work_waits_twice_as_often_not_twice_as_long() -> None:
    """2 x 1000 ns with 2 x 300 of waiting: half of twice the step's lateness at each of two waits is what it was."""
    part = lateness_part(waiting_for_an_unseen_rank(600), waiting_for_an_unseen_rank(600, times=2), 1000, 2.0)
    assert (part.low, part.high) == (0.0, 0.0)
