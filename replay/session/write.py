"""Writes an answer to a file; the suffix of its name says what."""

from __future__ import annotations

from pathlib import Path

from replay.core.errors import RefusedError
from replay.report import chrome, perfetto
from replay.report.result import to_json_bytes
from replay.report.slices import collect
from replay.session.types import Answer


def write(answer: Answer, path: Path) -> None:
    """``.pftrace`` and ``.trace.json``: timelines; ``.json``: the result. Raises :class:`RefusedError` for others."""
    if path.name.endswith(".pftrace"):
        perfetto.write(collect(answer.runs), path)
    elif path.name.endswith(".trace.json"):
        chrome.write(collect(answer.runs), path)
    elif path.name.endswith(".json"):
        path.write_bytes(to_json_bytes(answer.result))
    else:
        raise RefusedError(f"{path.name}: give a name that ends in .json, .pftrace or .trace.json")
