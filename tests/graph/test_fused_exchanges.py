"""Fused exchanges with one partner are matched by the pair: other pairs of their group exchange as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import parsers
from replay.graph.collectives import group_size, match
from replay.trace import CollectiveKind, Trace
from tests.parsers.ascend import timelines as make
from tests.parsers.ascend.folders import Event


def exchange(count: int, span: tuple[float, float], own: int, other: int) -> list[Event]:
    """A batched exchange of rank ``own`` in a group of four."""
    name = f"hcom_batchSendRecv__123_{count}_1"
    big = make.operator(name, span, count=1 << 19, data_type="FP32", rank_size=4)  # half of it is received
    return [big, make.sub_task("Memcpy", (span[0] + 1, span[1] - 1), ranks=(own, other))]


def test_exchanges_are_matched_by_pair(tmp_path: Path) -> None:
    """Rank 1 exchanges with rank 2, which is not in the input, and then twice with rank 0, as rank 0 does."""
    ranks = [
        [*exchange(0, (100, 200), 0, 1), *exchange(1, (300, 400), 0, 1)],
        [*exchange(0, (10, 50), 1, 2), *exchange(1, (90, 200), 1, 0), *exchange(2, (310, 400), 1, 0)],
    ]
    for rank, rows in enumerate(ranks):
        folder = tmp_path / f"rank_{rank}"
        folder.mkdir()
        make.write(folder, [*make.eager(), *make.collectives(*rows)])
    trace = parsers.read([tmp_path])
    assert isinstance(trace, Trace)
    events = np.flatnonzero(trace.comm >= 0)
    assert {CollectiveKind(kind) for kind in trace.collectives.kind} == {CollectiveKind.SEND_RECV}
    assert {group_size(trace, event) for event in events.tolist()} == {2}
    found = match(trace, events, {})
    members = [sorted(found.start_ns[found.match == number].tolist()) for number in np.unique(found.match)]
    begin = int(trace.start_ns.min())
    assert sorted([(start - begin) // 1000 for start in own] for own in members) == [[0], [80, 90], [290, 300]]


def test_exchanges_with_several_partners_stay_alone(tmp_path: Path) -> None:
    """In an interleaved pipeline every rank sends to the next and receives from the one before, which do so later."""
    for rank in (0, 1):
        begin = 100 + 150 * rank
        rows = exchange(0, (begin, begin + 100), rank, rank + 1)
        rows.append(make.sub_task("Memcpy", (begin + 2, begin + 9), ranks=(rank, 3 - rank)))
        folder = tmp_path / f"rank_{rank}"
        folder.mkdir()
        make.write(folder, [*make.eager(), *make.collectives(*rows)])
    trace = parsers.read([tmp_path])
    assert isinstance(trace, Trace)
    found = match(trace, np.flatnonzero(trace.comm >= 0), {})
    assert len(set(found.match.tolist())) == 2
