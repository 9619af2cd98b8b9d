"""``run.json`` beside the traces: layout, model and step times of the recorded job, in the toolkit's own words.

Its ``layout`` and ``model`` objects are read, and ``values`` of ``profiled_step_ms``. What a file does not say stays
unknown; keys that are not known here are left alone, so that newer files can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from replay.core.errors import TraceError
from replay.layout import Layout
from replay.model import ModelSpec

FILE_NAME = "run.json"


@dataclass(frozen=True, slots=True)
class RunDescription:
    """Layout sizes as far as they are stated, the model, and the steps that were timed with the profiler on."""

    layout: Mapping[str, Any] = field(default_factory=dict)
    model: ModelSpec = field(default_factory=ModelSpec)
    steps_ms: tuple[float, ...] = ()
    file: str = ""  # "" when there is none


def find(sources: Sequence[Path]) -> RunDescription:
    """The description in or beside the first source that has one; an empty one otherwise."""
    for source in sources:
        path = (source if source.is_dir() else source.parent) / FILE_NAME
        if path.is_file():
            return read(path)
    return RunDescription()


def read(path: Path) -> RunDescription:
    """Parse ``run.json``. Raises :class:`TraceError` where it is not JSON or its objects are not objects."""
    try:
        document = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise TraceError(f"{path.name}: not JSON ({error}); mend it or move it away from the traces") from None
    if not isinstance(document, dict):
        raise TraceError(f"{path.name}: must be an object that holds `layout` and `model`")
    layout, model, timed = (_object(document, key, path) for key in ("layout", "model", "profiled_step_ms"))
    return RunDescription(
        _known(layout, Layout), ModelSpec(**_known(model, ModelSpec)), tuple(timed.get("values", ())), path.name
    )


def _object(document: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise TraceError(f"{path.name}: `{key}` must be an object, got {type(value).__name__}")
    return value


def _known(values: Mapping[str, Any], kind: type[Layout] | type[ModelSpec]) -> dict[str, Any]:
    """Items that the type has a field for, unless null."""
    names = {f.name for f in fields(kind)}
    return {key: value for key, value in values.items() if key in names and value is not None}
