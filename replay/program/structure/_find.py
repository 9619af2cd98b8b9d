"""Asks every finder of this folder in order, the strongest evidence first."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Source:
    """Layout and model as far as they are known, and the sizes of the layout that are merely assumed."""

    layout: Layout
    model: ModelSpec
    assumed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """The states of all ops, the layout they are those of, and the sentences that tell how it is known."""

    states: Int64
    layout: Layout
    sentences: tuple[str, ...]


def find(graph: Graph, trace: Trace, places: Origins, source: Source, stated: Int64) -> Found:
    """The states that ranges stated, completed by every finder.

    A finder that sees other sizes than the assumed ones is the last: what was found before was found with those.
    """
    passes = np.full(len(graph), UNKNOWN_PASS, np.int64)
    calls = calls_of(trace, places)
    known = (source.layout, source.model, stated, passes, source.assumed)
    evidence = Evidence(graph, trace, places, calls, autograd(trace, calls), *known)
    sentences: list[str] = []
    for finder in sorted(members(PACKAGE).values(), key=lambda module: int(module.ORDER)):
        finding = finder.find(evidence)
        evidence = evidence.with_finding(finding)
        sentences += finding.sentences
        if any(getattr(evidence.layout, name) != getattr(source.layout, name) for name in source.assumed):
            break
    return Found(evidence.states, evidence.layout, tuple(sentences))
