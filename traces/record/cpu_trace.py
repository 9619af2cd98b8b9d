"""A trace as torch wrote it, with the events of all steps but one left out."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

_STEP = re.compile(r"ProfilerStep#(\d+)")


def cut(raw: Path, out: Path, number: int) -> None:
    """Write the events that begin within step ``number`` (and what has no duration) of ``raw`` to ``out`` (gzip)."""
    content = json.loads(raw.read_text())
    begin, end = _span(content["traceEvents"], number)
    content["traceEvents"] = [e for e in content["traceEvents"] if "dur" not in e or begin <= e["ts"] < end]
    content["traceEvents"] = [e for e in content["traceEvents"] if e.get("ph") not in ("s", "f") or _in(e, begin, end)]
    with gzip.GzipFile(out, "wb", mtime=0) as file:
        file.write(json.dumps(content, separators=(",", ":")).encode())


def _span(events: list[dict[str, Any]], number: int) -> tuple[float, float]:
    """Begin and end of a step's marker, µs."""
    for event in events:
        match = _STEP.fullmatch(event.get("name", ""))
        if match and int(match[1]) == number:
            return event["ts"], event["ts"] + event["dur"]
    raise ValueError(f"no step {number} in the profiler's export")


def _in(event: dict[str, Any], begin: float, end: float) -> bool:
    return begin <= float(event["ts"]) < end
