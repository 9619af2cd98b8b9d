"""The schedule that ran is told by the order of the passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.core.errors import RefusedError
from replay.program.pipeline_program import lift
from replay.whatif.pipeline import PipelineQuestion, run
from tests.pipeline_recordings import MS, F, Item, layout_of, recording_of


def equal(item: Item) -> int:
    """Forward 10 ms, backward 20 ms."""
    return 10 if item[1] == F else 20


def test_gpipe_is_told_from_the_1f1b_that_a_format_assumes() -> None:
    """And said; the replay is exact then."""
    recording = recording_of(layout_of(4, 8, name="gpipe"), equal)
    answer = run(replace(recording, layout=layout_of(4, 8)), PipelineQuestion())
    assert answer.source.schedule == "gpipe"
    assert answer.replayed.step_ns == 330 * MS
    assert any("order of schedule gpipe, not 1f1b" in warning for warning in answer.warnings)


def test_the_layout_s_own_schedule_wins_a_tie() -> None:
    """One micro-batch: every schedule runs it forward, then backward."""
    assert lift(recording_of(layout_of(2, 1, name="gpipe"), equal)).source.schedule == "gpipe"


def test_a_rank_alone_is_no_recording_of_a_pipeline() -> None:
    """The first of four ranks warms up three forwards, which one rank never does."""
    recording = recording_of(layout_of(4, 8), equal)
    rows = recording.stage == 0
    columns = ("step", "dp_rank", "stage", "kind", "chunk", "microbatch", "order", "start_ns", "dur_ns")
    alone = replace(
        recording,
        **{name: getattr(recording, name)[rows] for name in columns},
        names=("pass",) * int(rows.sum()),
        layout=layout_of(1, 8),
    )
    with pytest.raises(RefusedError, match="no known schedule's order for 1 pipeline ranks"):
        lift(alone)
