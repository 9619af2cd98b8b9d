"""Critical path: the chain of ops, lags and delays that fills the step, read off ``Timeline.bound_by``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

import numpy as np

from replay.core.columns import Int8, Int32, Int64, check_equal_length, freeze
from replay.core.errors import GraphError
from replay.core.units import percent
from replay.graph.types import Graph, OpKind, Rule
from replay.simulate.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd

Key = Literal["name", "kind", "rank", "rule", "part"]


class Part(IntEnum):
    """What a segment of the path is made of."""

    OP = 0  # the op itself ran
    RESIDUAL = 1  # delay that no edge explains (R5)
    LAG = 2  # the lag of the edge that released the op
    READY = 3  # before the first op was ready: its lane was busy with earlier work


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Segments in the order of time; they join from 0 to the step's end without a gap: ``time_ns`` sums to the step."""

    op: Int64  # op that the segment belongs to
    part: Int8  # Part
    rule: Int8  # Rule of the edge that released the op, -1 none
    begin_ns: Int64
    end_ns: Int64

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in ("op", "part", "rule", "begin_ns", "end_ns")}
        check_equal_length("CriticalPath", **columns)
        for column in columns.values():
            freeze(column)

    @property
    def time_ns(self) -> Int64:
        """Length of every segment."""
        return np.asarray(self.end_ns - self.begin_ns)

    def to_frame(self, graph: Graph) -> pd.DataFrame:
        """One row per segment, spelled out."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        frame = pd.DataFrame({"begin_ns": self.begin_ns, "end_ns": self.end_ns, "time_ns": self.time_ns})
        keys: tuple[Key, ...] = ("name", "kind", "rank", "rule", "part")
        return frame.assign(**{key: _labels(self, graph, key) for key in keys})


@dataclass(frozen=True, slots=True)
class Contribution:
    """Segments of the critical path with one label: count, time and share of the step."""

    label: str
    segments: int
    time_ns: int
    share_pct: float


def critical_path(graph: Graph, timeline: Timeline) -> CriticalPath:
    """Walk back from the op that ends last (lowest index on a tie) along the edges that released each op.

    Every op contributes up to three segments: itself, its residual and the lag of its releasing edge. A negative lag
    starts an op before its source ended; the source then counts only up to that start, so no instant counts twice.
    """
    from replay.report import kernels  # noqa: PLC0415 - numba takes 0.3 s to import

    if len(graph) == 0:
        raise GraphError("nothing to trace: the graph has no ops")
    last = int(timeline.end_ns.argmax())
    path = kernels.walk_back(last, timeline.bound_by, graph.edges.source)
    edge = timeline.bound_by[path]
    released, base = _release(graph, timeline, path, edge)
    # Boundaries from the step's end backwards; a boundary later than one already passed leaves an empty segment.
    bounds = np.stack([timeline.start_ns[path], released, base], axis=1).reshape(-1)
    bounds = np.minimum.accumulate(np.concatenate([timeline.end_ns[[last]], np.maximum(bounds, 0)]))[::-1]
    part = np.tile(np.array([Part.OP, Part.RESIDUAL, Part.LAG], np.int8), len(path))[::-1].copy()
    part[0] = Part.READY  # the first op has no releasing edge
    rule = np.where(edge >= 0, graph.edges.rule[edge] if len(graph.edges) else -1, -1).astype(np.int8)
    keep = np.diff(bounds) > 0
    return CriticalPath(
        np.repeat(path, 3)[::-1][keep],
        part[keep],
        np.repeat(rule, 3)[::-1][keep],
        bounds[:-1][keep],
        bounds[1:][keep],
    )


def contributions(path: CriticalPath, graph: Graph, key: Key) -> list[Contribution]:
    """Time of the path by ``key``, largest first; the times sum to the step.

    Residual, lag and ready segments are no work of the op: by name and kind they stand under their own part.
    """
    labels, place = np.unique(np.array(_labels(path, graph, key), str), return_inverse=True)
    time = np.zeros(len(labels), np.int64)
    np.add.at(time, place, path.time_ns)
    count = np.bincount(place, minlength=len(labels))
    order = np.lexsort((labels, -time))
    total = int(time.sum())
    return [Contribution(str(labels[i]), int(count[i]), int(time[i]), percent(time[i], total)) for i in order]


def _release(graph: Graph, timeline: Timeline, path: Int64, edge: Int64) -> tuple[Int64, Int64]:
    """When each op of the path was released, and the time of its source that its edge counts from."""
    source = np.where(edge >= 0, graph.edges.source[edge] if len(graph.edges) else 0, 0)
    from_start = graph.edges.from_start[edge] if len(graph.edges) else np.zeros(len(path), np.bool_)
    lag = graph.edges.lag_ns[edge] if len(graph.edges) else np.zeros(len(path), np.int64)
    base = np.where(from_start, timeline.start_ns[source], timeline.end_ns[source])
    bound = edge >= 0
    released = np.where(bound, base + lag, graph.ready_ns[path])
    return released, np.where(bound, base, 0)


def _labels(path: CriticalPath, graph: Graph, key: Key) -> list[str]:
    """Label of every segment."""
    part = [Part(p) for p in path.part]
    if key == "part":
        return [p.name.lower() for p in part]
    if key == "rule":
        return ["none" if rule < 0 else Rule(rule).name.lower() for rule in path.rule]
    if key == "rank":
        return [str(rank) for rank in graph.rank[path.op]]
    column: Int8 | Int32 = graph.name if key == "name" else graph.kind
    own = [graph.names[i] if key == "name" else OpKind(i).name.lower() for i in column[path.op]]
    return [name if p is Part.OP else p.name.lower() for name, p in zip(own, part, strict=True)]
