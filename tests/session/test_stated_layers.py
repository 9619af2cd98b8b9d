"""``--layers`` is held against what the step shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.program.types import Labels
from replay.session.question import Facts
from replay.session.stated_layers import check_layers
from tests.program.events import HOST, graph_of, launched, span, trace_of


def labels(layers: int, layout: Layout) -> Labels:
    """Labels of a step of rank 0 that shows this many layers."""
    rows = [span(f"layer={k}", HOST, 10 * k, 10 * k + 10) for k in range(layers)]
    rows += [row for k in range(max(layers, 1)) for row in launched("gemm", HOST, 10 * k + 5, 10 * k + 6, 2, k + 1)]
    trace = trace_of(rows)
    return replace(label(graph_of(trace), trace, Layout(), ModelSpec()), layout=layout)


@pytest.mark.parametrize(("shown", "says"), [(0, "nothing in this step tells layers apart"), (3, "this step shows 3")])
def test_layers_that_the_step_does_not_show_are_named(shown: int, says: str) -> None:
    with pytest.raises(LayoutError, match=f"--layers says 999, but {says}"):
        check_layers(Facts(layers=999), labels(shown, Layout()), (0,))


def test_other_stages_may_hold_the_rest() -> None:
    """Rank 0 of two stages shows 3 of 6 layers, but never 3 of 2."""
    two_stages = Layout(pp=2, world_size=2)
    check_layers(Facts(layers=6), labels(3, two_stages), (0,))
    with pytest.raises(LayoutError, match="says 2, but this step shows 3"):
        check_layers(Facts(layers=2), labels(3, two_stages), (0,))
