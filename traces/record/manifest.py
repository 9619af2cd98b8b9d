"""``run.json``: what was run, how long its steps took, and how to run it again."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traces.record import groups
from traces.record.job import Job

StepTimes = list[list[tuple[int, int]]]  # [rank][step] → host start and end, one clock for all ranks

_NS_PER_MS = 1e6


def spans_ms(times: StepTimes) -> list[float]:
    """Span of each step: first start to last end over all ranks."""
    steps = zip(*times, strict=True)
    return [(max(end for _, end in step) - min(start for start, _ in step)) / _NS_PER_MS for step in steps]


def median_index(values: Sequence[float]) -> int:
    """Index of the (lower) median value."""
    return sorted(range(len(values)), key=values.__getitem__)[(len(values) - 1) // 2]


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Median, spread (max - min in percent of the median) and all values."""
    median = statistics.median(values)
    return {
        "median": round(median, 3),
        "spread_pct": round(100 * (max(values) - min(values)) / median, 3),
        "values": [round(value, 3) for value in values],
    }


def manifest(
    job: Job, options: dict[str, Any], plain: StepTimes, profiled: StepTimes, *, command: str, torch: str
) -> dict[str, Any]:
    """Contents of ``run.json``. ``trace_step_ms`` is the profiled step that the traces hold."""
    with_profiler = spans_ms(profiled)
    return {
        "schema": 1,
        "name": job.name,
        "device": "emulated",
        "layout": job.layout(),
        "model": job.model_json(),
        "options": options,
        "profiled_step_ms": summary(with_profiler),
        "unprofiled_step_ms": summary(spans_ms(plain)),
        "trace_step_ms": round(with_profiler[median_index(with_profiler)], 3),
        "groups": groups.members(job),
        "torch": torch,
        "command": command,
    }


def write(out: Path, contents: dict[str, Any]) -> None:
    """Write ``out/run.json``, lists of numbers on one line each."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in contents.items()]
    (out / "run.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
