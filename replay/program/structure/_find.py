"""Asks every finder of this folder in order, the strongest evidence first."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.core.plugins import members
from replay.graph.types import Graph
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.origins import Origins
from replay.program.structure._autograd import autograd
from replay.program.structure._calls import calls_of
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence
from replay.trace import Trace

PACKAGE = "replay.program.structure"


def find(
    graph: Graph, trace: Trace, places: Origins, source: tuple[Layout, ModelSpec], stated: Int64
) -> tuple[Int64, tuple[str, ...]]:
    """The states that ranges stated, completed by every finder, and the sentences that say how."""
    passes = np.full(len(graph), UNKNOWN_PASS, np.int64)
    calls = calls_of(trace, places)
    evidence = Evidence(graph, trace, places, calls, autograd(trace, calls), *source, stated, passes)
    sentences: list[str] = []
    for finder in sorted(members(PACKAGE).values(), key=lambda module: int(module.ORDER)):
        finding = finder.find(evidence)
        evidence = evidence.with_finding(finding)
        sentences += finding.sentences
    return evidence.states, tuple(sentences)
