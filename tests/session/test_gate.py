"""R6: nothing is predicted from a baseline that is not reproduced."""

from __future__ import annotations

import pytest

from replay.core.errors import RefusedError
from replay.session.gate import most_differing, require
from replay.simulate.engine import simulate
from tests.synthetic import Op, graph_of


def test_five_percent_passes_and_more_is_refused() -> None:
    """The message carries the number, the reason and the way out."""
    assert require("replayed", 5.0, "", force=False) is False
    with pytest.raises(RefusedError, match=r"-5\.1 %.*kernel x.*--force"):
        require("replayed", -5.1, "kernel x", force=False)


def test_force_overrides_and_says_so() -> None:
    """The caller learns that the gate was overridden."""
    assert require("replayed", 50.0, "", force=True) is True
    assert require("replayed", 1.0, "", force=True) is False


def test_ops_that_are_simulated_too_late_are_named_too() -> None:
    """7 ms before its dependency allows outweigh 1 ms that passed for no known reason."""
    graph = graph_of([Op("held", 5, start=9, residual=1_000_000), Op("early", 5, start=2, residual=-7_000_000)])
    assert most_differing(graph, simulate(graph)).startswith("largest differences: rank 0, stream 7: early (-7.000 ms")
