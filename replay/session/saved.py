"""A result saved with ``-o FILE.json`` as a side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from replay.core.errors import TraceError
from replay.core.units import NS_PER_MS
from replay.report.breakdown import State
from replay.report.diff.types import Side
from replay.report.result import SCHEMA, OpMean

HEAD_BYTES = 4096  # a saved result names its schema first
KINDS = ("predicted", "replayed", "measured")  # the step that counts is the first there is


class _Layout(msgspec.Struct):
    source: dict[str, int | str | None] = {}
    target: dict[str, int | str | None] = {}


class _Saved(msgspec.Struct):
    """The keys that are compared; others are left alone."""

    schema: int
    measured_step_ms: float | None = None
    replayed_step_ms: float | None = None
    predicted_step_ms: float | None = None
    predicted_interval_ms: tuple[float, float] | None = None
    breakdown: dict[str, dict[str, float | None] | None] = {}
    layout: _Layout = msgspec.field(default_factory=_Layout)
    metrics: dict[str, float | None] = {}
    memory: dict[str, Any] = {}
    ops: tuple[OpMean, ...] = ()
    warnings: tuple[str, ...] = ()


def is_saved(path: Path) -> bool:
    """Does the file begin as a result does?"""
    if not path.is_file() or not path.name.endswith(".json"):
        return False
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return b'"schema"' in head and b'"traceEvents"' not in head


def load(path: Path) -> Side:
    """The predicted step; where nothing was asked the replayed, else the measured one.

    Raises :class:`TraceError` for a file that is no result, or one without a step.
    """
    saved = _decode(path)
    kind, step_ms = _step(saved, path)
    step_ns = round(step_ms * NS_PER_MS)
    states = saved.breakdown.get(kind) or {}
    rank, peak = states.get("rank"), saved.memory.get("peak_gib")
    predicted = kind == "predicted"
    return Side(
        source="prediction",
        name=path.name,
        step_ns=step_ns,
        step_used=f"{kind} step",
        interval_ns=_interval_ns(saved) if predicted else None,
        parts_ns=_whole_ns(states, step_ns),
        rank=None if rank is None else int(rank),
        layout=saved.layout.target or saved.layout.source,
        numbers={**(saved.metrics if predicted else {}), "peak_gib": peak if isinstance(peak, int | float) else None},
        ops=saved.ops,
        warnings=saved.warnings,
    )


def _decode(path: Path) -> _Saved:
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
    except msgspec.DecodeError as error:
        raise TraceError(f"{path.name}: {error}; save the prediction again with -o {path.name}") from None
    if saved.schema != SCHEMA:
        raise TraceError(f"{path.name}: not a result of schema {SCHEMA}; save the prediction again with this version")
    return saved


def _step(saved: _Saved, path: Path) -> tuple[str, float]:
    steps = (saved.predicted_step_ms, saved.replayed_step_ms, saved.measured_step_ms)
    for kind, step_ms in zip(KINDS, steps, strict=True):
        if step_ms is not None and step_ms > 0:
            return kind, step_ms
    raise TraceError(f"{path.name}: a result of replay without any step; give one that predicts or replays a step")


def _interval_ns(saved: _Saved) -> tuple[int, int] | None:
    bounds = saved.predicted_interval_ms
    return (round(bounds[0] * NS_PER_MS), round(bounds[1] * NS_PER_MS)) if bounds else None


def _whole_ns(states: Mapping[str, float | None], step_ns: int) -> dict[str, int]:
    """Milliseconds by state as whole ns that sum to the step where they did so in ms: rounding goes to the largest."""
    parts = {state.label: round((states.get(state.label) or 0.0) * NS_PER_MS) for state in State} if states else {}
    rest = step_ns - sum(parts.values())
    if parts and abs(rest) <= len(parts):
        largest = max(parts, key=lambda key: parts[key])
        parts[largest] += rest
    return parts
