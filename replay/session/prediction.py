"""A prediction before it is put into a report: the edited scenario and what is known about its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.graph.types import Graph
from replay.layout import Layout
from replay.report.result import ChangeRow, ChunkCostRow
from replay.session.interval import Part
from replay.session.source import Source
from replay.simulate.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Lift:
    """The source layout rebuilt from templates, and how far it is from the measured step."""

    step_ns: int
    error_pct: float
    unassigned_pct: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The target scenario. ``ratio`` is simulated(target) / simulated(source), residuals in both (R6)."""

    graph: Graph
    timeline: Timeline
    ratio: float
    parts: tuple[Part, ...] = ()  # of the interval, beyond those of the baseline
    source: Source | None = None  # completed by what the labels of its step found
    target: Layout | None = None
    lift: Lift | None = None
    changes: tuple[ChangeRow, ...] = ()
    chunk_costs: tuple[ChunkCostRow, ...] = ()  # of the source
    warnings: tuple[str, ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)  # how the program's structure was found
    forced: bool = False
