"""A host that is held as the step begins."""

from __future__ import annotations

import pytest

from replay.core.errors import RefusedError
from replay.graph.types import OpKind
from replay.simulate.engine import simulate
from replay.whatif import scale, stall
from tests.synthetic import Op, graph_of

MS = 1_000_000
TWO_RANKS = graph_of(
    [
        Op("launch", 1 * MS, lane="thread 1", kind=OpKind.CALL),
        Op("gemm", 5 * MS, [0]),
        Op("launch", 1 * MS, lane="thread 1", kind=OpKind.CALL, rank=1),
        Op("gemm", 5 * MS, [2], rank=1),
    ]
)


def step_ms(target: str, stall_ms: float) -> float:
    """Simulated step with the stall."""
    return simulate(stall.apply(TWO_RANKS, target, stall_ms)).step_ns / MS


def test_the_step_begins_later_on_that_rank() -> None:
    """1 ms launch + 5 ms kernel, and 3 ms before them."""
    assert step_ms("1", 0) == 6
    assert step_ms("1", 3) == 9
    assert step_ms("all", 3) == 9


def test_ranks_without_a_host_are_refused_by_name() -> None:
    """With those that there are."""
    with pytest.raises(RefusedError, match="all, 0, 1"):
        stall.apply(TWO_RANKS, "7", 1.0)


def test_ops_of_one_rank_are_scaled_alone() -> None:
    """``PATTERN@RANK``, by name and by class."""
    for pattern in ("gemm@1", "@compute@1"):
        assert scale.apply(TWO_RANKS, pattern, 2.0).duration_ns.tolist() == [MS, 5 * MS, MS, 10 * MS]
    with pytest.raises(RefusedError, match="rank 5"):
        scale.apply(TWO_RANKS, "gemm@5", 2.0)
