"""Retiming: how the duration of every op changes under another layout, with the reason and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hwprofiles import HardwareProfile
from replay.core.columns import Float64, Int8, Int32, check_equal_length, freeze
from replay.core.evidence import Grade
from replay.graph.types import Graph
from replay.model import ModelSpec
from replay.program.loads import Loads
from replay.trace import Trace


@dataclass(frozen=True, slots=True)
class RetimeContext:
    """What a retiming may consult beside the graph: the trace for bytes and shapes, the model, a profile, the loads.

    ``profile`` is ``None`` where no profile lists the device: then only ratios of bytes and FLOPs are used.
    ``loads`` is ``None`` where the experts keep the loads that were measured.
    """

    trace: Trace
    model: ModelSpec
    profile: HardwareProfile | None = None
    loads: Loads | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of op before and after, for the report: what it moves or computes, and how often.

    ``before`` and ``after`` hold named quantities with their unit in the name (``rows_per_expert``, ``nbytes``,
    ``remote_nodes``, ``calls``); a quantity that is not known is absent.
    """

    name: str
    before: dict[str, float]
    after: dict[str, float]
    formula: str
    grade: Grade

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "formula": self.formula,
            "grade": self.grade.label,
        }


@dataclass(frozen=True, slots=True)
class Retiming:
    """Factors on measured durations (R1: measured x model(new) / model(old)), one row per op of a graph.

    ``low`` and ``high`` bracket ``factor`` where the model cannot say it exactly. A factor of 0 means that the target
    has no such op. ``reason`` is an index into ``formulas``, -1 for an op that is not touched.
    """

    factor: Float64
    low: Float64
    high: Float64
    grade: Int8  # Grade of the new duration
    reason: Int32
    formulas: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in ("factor", "low", "high", "grade", "reason")}
        check_equal_length("Retiming", **columns)
        for column in columns.values():
            freeze(column)

    def __len__(self) -> int:
        return len(self.factor)

    @staticmethod
    def identity(graph: Graph) -> Retiming:
        """Nothing changes."""
        n = len(graph)
        one = np.ones(n)
        return Retiming(one, one.copy(), one.copy(), graph.grade.copy(), np.full(n, -1, np.int32))

    def followed_by(self, other: Retiming) -> Retiming:
        """Both changes, one after the other: factors multiply, the weaker grade counts, both are reported."""
        reason = np.where(other.reason >= 0, other.reason + len(self.formulas), self.reason).astype(np.int32)
        return Retiming(
            self.factor * other.factor,
            self.low * other.low,
            self.high * other.high,
            np.maximum(self.grade, other.grade),
            reason,
            self.formulas + other.formulas,
            self.changes + other.changes,
            tuple(dict.fromkeys(self.warnings + other.warnings)),
        )

    def apply(self, graph: Graph, factor: Float64 | None = None) -> Graph:
        """The graph with durations times ``factor`` (default: this retiming's own; give ``low`` or ``high`` for a
        bracket), rounded to whole nanoseconds."""
        chosen = self.factor if factor is None else factor
        return graph.with_durations(np.rint(graph.duration_ns * chosen).astype(np.int64), self.grade)
