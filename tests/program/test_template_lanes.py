"""Templates: a lane of a block is one chain, whatever stood between its ops where it was measured."""

from __future__ import annotations

import numpy as np

from replay.program.templates import _resumed


def test_a_lane_that_was_interrupted_goes_on_after_its_last_op() -> None:
    """Lane 4 holds positions 0 to 3, lane 9 the rest; position 2 followed an op of another block."""
    lane = np.array([4, 4, 4, 4, 9, 9], np.int32)
    assert _resumed(lane, np.array([1, 3, 5])).tolist() == [2]
