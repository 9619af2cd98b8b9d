"""Which host call each op of a step comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from replay.graph.build import build
from replay.graph.types import OpKind
from replay.program.origins import origins
from tests.parsers.chrome import call, kernel, read, text


def test_ids_may_be_as_large_as_they_like(tmp_path: Path) -> None:
    """A damaged one is 2^63 - 1: times a rank it is beyond int64. The file names no epoch."""
    largest = 2**63 - 1
    events = [call("launch", 1000, 7), call("launch", 1010, largest), kernel("f", 1020, largest), kernel("g", 1030, 7)]
    trace = read(tmp_path, text(events))
    graph = build(trace)
    found = origins(graph, trace).time_ns[np.flatnonzero(graph.kind == OpKind.COMPUTE)]
    assert found.tolist() == [1_010_000, 1_000_000]
