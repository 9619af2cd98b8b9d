"""A rank whose profiler lost a collective keeps its clock; times by hand in µs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.graph.steps import COMM, graph_of, launch, step

ENDS = (200, 400, 600, 800, 1000)


def rank(lost: int, shift: float = 0, barriers: bool = False) -> list[dict[str, Any]]:
    """Five all-reduces of 50 µs without the one at ``lost``, perhaps three barriers; the clock is ``shift`` ahead."""
    comms = [("allreduce", end) for i, end in enumerate(ENDS) if i != lost]
    comms += [("barrier", end) for end in (290, 490, 690) if barriers]
    events = [step(1100)]
    for correlation, (kind, end) in enumerate(sorted(comms, key=lambda item: item[1]), 1):
        args = {"Collective name": kind, "In msg nelems": 8, "Out msg nelems": 8, "Group size": 2, "dtype": "Float",
                "Process Group Name": "0"}  # fmt: skip
        events += launch(f"ncclDevKernel_{kind}(x)", end - 70, end - 50, 50, correlation, stream=COMM, **args)
    return [{**event, "ts": event["ts"] + shift} for event in events]


@pytest.mark.parametrize("lost", [1, 2, 3, 4])  # without the first, all agree on another clock
def test_the_clock_of_a_rank_that_lost_a_member_stays(tmp_path: Path, lost: int) -> None:
    """All later members are matched with their neighbours 200 µs away: no reason to move the clock."""
    graph = graph_of(tmp_path, rank(-1), rank(lost))
    assert graph.health.clock_offset_ns[1][0] == 0
    assert [warning for warning in graph.health.warnings if warning.startswith("1 members of collectives")]


@pytest.mark.parametrize("lost", [0, 2])
def test_complete_collectives_decide(tmp_path: Path, lost: int) -> None:
    """Three barriers that no rank lost know that the clock is 1000 µs ahead."""
    graph = graph_of(tmp_path, rank(-1, barriers=True), rank(lost, 1000, barriers=True))
    assert graph.health.clock_offset_ns[1] == (-1_000_000, 0)
