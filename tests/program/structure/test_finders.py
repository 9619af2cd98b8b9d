"""Every finder of the folder: an order of its own, and one row per op, also of a step that shows nothing."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from replay.core.plugins import members
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.open_ranges import FIELDS, UNSAID
from replay.program.origins import origins
from replay.program.structure._autograd import autograd
from replay.program.structure._calls import calls_of
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence
from tests.program.events import HOST, graph_of, launched, trace_of

FINDERS = members("replay.program.structure")


def test_no_two_finders_have_one_order() -> None:
    orders = [int(finder.ORDER) for finder in FINDERS.values()]
    assert len(set(orders)) == len(orders)


@pytest.mark.parametrize("finder", FINDERS.values(), ids=FINDERS)
def test_one_row_per_op(finder: ModuleType) -> None:
    trace = trace_of(launched("kernel", HOST, 0, 5, 10, 1))
    graph = graph_of(trace)
    places = origins(graph, trace)
    calls = calls_of(trace, places)
    states, passes = np.tile(UNSAID, (1, 1)), np.full(1, UNKNOWN_PASS, np.int64)
    known = (Layout(), ModelSpec(), states, passes)
    finding = finder.find(Evidence(graph, trace, places, calls, autograd(trace, calls), *known))
    assert finding.states.shape == (1, len(FIELDS))
    assert finding.passes.tolist() == [UNKNOWN_PASS]
