"""PyTorch Profiler (Kineto) traces, and Chrome traces of other tools that use its categories. One file per rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from parsers._chrome_events import Losses, events
from parsers._chrome_header import read_header
from parsers._chrome_rows import ChromeRows
from parsers._chrome_stream import PIECE_BYTES, ChromeStream
from parsers._combine import FileContent, combine
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.trace import Health, Trace

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "kineto"
GENERIC = True  # a Chrome trace of a more special kind belongs to its own parser
_SNIFF = re.compile(
    rb'"traceEvents"\s*:|^\s*\{\s*"schemaVersion"\s*:|"distributedInfo"\s*:|^\s*\[\s*\{[^\[\]]{0,4096}?"ph"\s*:'
)


def sniff(head: bytes, path: Path) -> bool:
    """True for a JSON object with ``traceEvents``, or a list of Chrome events."""
    return bool(_SNIFF.search(head))


def read(files: Sequence[SourceFile], options: ReadOptions, *, piece_bytes: int = PIECE_BYTES) -> Trace:
    """All files as one trace, without those that hold no event with a time and a duration.

    Raises :class:`TraceError` where none is left, with the reason of the first.
    """
    contents: list[FileContent] = []
    unusable: list[TraceError] = []
    for file in files:
        try:
            contents.append(_read_stream(ChromeStream(file.blocks(piece_bytes), file.name), options))
        except TraceError as error:
            unusable.append(error)
    if not contents:
        raise unusable[0]
    trace = combine(contents, FORMAT)
    left_out = Health(
        skipped={"files without events": len(unusable)} if unusable else {},
        warnings=tuple(f"{error}; the file was left out" for error in unusable),
    )
    return replace(trace, health=trace.health.merged(left_out))


def _read_stream(stream: ChromeStream, options: ReadOptions) -> FileContent:
    losses = Losses()
    collected = ChromeRows(keep_modules=options.keep_modules)
    for batch in events(stream, losses):
        collected.add(batch)
    rows = collected.finish()
    if not len(rows):
        raise TraceError(f"{stream.name}: {losses.seen} records, none of which is an event with a time and a duration")
    cut = f"{stream.name} ends in the middle; the events before are used"
    health = Health(
        events=losses.seen,
        dropped=dict(losses.dropped + collected.dropped),
        skipped=dict(collected.skipped),
        clipped=dict(losses.repaired),
        inferred=dict(collected.inferred),
        warnings=(cut,) if stream.cut_short else (),
        cut_short=(stream.name,) if stream.cut_short else (),
    )
    return FileContent(stream.name, rows, read_header(stream), health)
