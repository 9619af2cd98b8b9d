"""``run.json`` beside the traces: layout, model and step times of the recorded job, in the toolkit's own words.

Its ``layout`` and ``model`` objects are read, and ``values`` of ``profiled_step_ms`` and ``unprofiled_step_ms``. What a
file does not say stays unknown; keys that are not known here are left alone, so that newer files can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from parsers.source import SourceFile, beside
from replay.core.errors import TraceError
from replay.layout import Layout
from replay.model import ModelSpec

FILE_NAME = "run.json"

# Every size of a Layout, each optional: a partial statement, not a layout yet.
_StatedLayout = msgspec.defstruct(
    "Layout", [(name, hint | None, None) for name, hint in get_type_hints(Layout).items()]
)


class _Timed(msgspec.Struct):
    values: tuple[float, ...] = ()


class _Document(msgspec.Struct):
    layout: dict[str, Any] = {}
    model: ModelSpec = msgspec.field(default_factory=ModelSpec)
    profiled_step_ms: _Timed = msgspec.field(default_factory=_Timed)
    unprofiled_step_ms: _Timed = msgspec.field(default_factory=_Timed)


@dataclass(frozen=True, slots=True)
class RunDescription:
    """Layout sizes as far as they are stated, the model, and steps that were timed with the profiler and without."""

    layout: Mapping[str, Any] = field(default_factory=dict)
    model: ModelSpec = field(default_factory=ModelSpec)
    steps_ms: tuple[float, ...] = ()
    unprofiled_steps_ms: tuple[float, ...] = ()
    file: str = ""  # "" when there is none


def find(sources: Sequence[Path]) -> RunDescription:
    """The description in or beside the first source that has one; an empty one otherwise."""
    for source in sources:
        file = beside(source, FILE_NAME)
        if file is not None:
            return read(file)
    return RunDescription()


def read(file: SourceFile) -> RunDescription:
    """Parse ``run.json``. Raises :class:`TraceError` naming the field where a value is of the wrong kind."""
    try:
        document = msgspec.json.decode(file.read(), type=_Document)
        stated = msgspec.convert(document.layout, _StatedLayout)
    except msgspec.DecodeError as error:
        raise TraceError(f"{file.name}: {error}; mend it or move it away from the traces") from None
    layout = {key: value for key, value in msgspec.structs.asdict(stated).items() if value is not None}
    return RunDescription(
        layout=layout,
        model=document.model,
        steps_ms=document.profiled_step_ms.values,
        unprofiled_steps_ms=document.unprofiled_step_ms.values,
        file=file.name,
    )
