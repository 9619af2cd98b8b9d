"""A trace's own replay, without a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.session.answer import answer
from replay.session.question import Facts, Question
from tests.graph.steps import work
from tests.parsers.chrome import text


@pytest.mark.parametrize(("growth_us", "said"), [(20, True), (0, False)])
def test_a_baseline_that_is_not_reproduced_says_so(tmp_path: Path, growth_us: int, said: bool) -> None:
    """Kernels alone, and growing gaps between them that nothing explains: no question would be answered from that."""
    path = tmp_path / "trace.json"
    path.write_bytes(text([work("k", 100 + 10 * i + growth_us * i * i, 10, i + 1) for i in range(10)]))
    result = answer([path], Question(), Facts()).result
    assert any("off by more than 5 %" in warning for warning in result.warnings) == said


def test_a_step_that_is_right_by_chance_says_so(tmp_path: Path) -> None:
    """Nothing explains the growing gaps in the second stream, but the first stream alone fills the step."""
    path = tmp_path / "trace.json"
    first = [work("k", 100 + 10 * i, 10, i + 1) for i in range(20)]
    second = [work("w", 100 + 3 * i * i, 2, 50 + i, stream=8) for i in range(8)]
    path.write_bytes(text(first + second))
    result = answer([path], Question(), Facts()).result
    assert result.replay_error_pct == pytest.approx(0, abs=1)
    assert any("may be chance" in warning for warning in result.warnings)
