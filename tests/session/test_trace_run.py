"""A trace's own replay, without a question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replay.report.result import RunResult
from replay.session.answer import answer
from replay.session.question import Facts, Question
from replay.session.trace_run import _missing_members
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


@pytest.mark.parametrize(("ranks", "wait_ms", "said"), [((0, 1), 4.0, True), ((0, 1), 0.5, False), ((), 4.0, False)])
def test_long_waits_beside_missing_ranks_are_said(
    tmp_path: Path, ranks: tuple[int, ...], wait_ms: float, said: bool
) -> None:
    """Of a step of 10 ms; no ranks named here are all of them."""
    path = tmp_path / "trace.json"
    path.write_bytes(text([work("k", 100, 10, 1)]))
    found = answer([path], Question(), Facts()).result
    assert isinstance(found, RunResult)
    facts = replace(found.input, ranks=ranks or tuple(range(8)), world_size=8)
    waiting = replace(found, input=facts, measured_step_ms=10.0, breakdown={"measured": {"wait": wait_ms}})
    assert [warning[:16] for warning in _missing_members(waiting)] == (["4.0 ms (40 % of "] if said else [])
