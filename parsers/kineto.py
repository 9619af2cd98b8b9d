"""PyTorch Profiler (Kineto) traces, and Chrome traces of other tools that use its categories. One file per rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parsers._assemble import RankRows, assemble
from parsers._chrome_events import Losses, events
from parsers._chrome_header import Header, read_header
from parsers._chrome_rows import ChromeRows
from parsers._chrome_stream import PIECE_BYTES, ChromeStream
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.trace import Health, Trace

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "kineto"
GENERIC = True
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_]?(\d+)", re.IGNORECASE)
_SNIFF = re.compile(rb'"traceEvents"\s*:|^\s*\{\s*"schemaVersion"\s*:\s*1\s*,|^\s*\[\s*\{[^\[\]]{0,4096}?"ph"\s*:')


def sniff(head: bytes, path: Path) -> bool:
    """True for a JSON object with ``traceEvents``, or a list of Chrome events."""
    return bool(_SNIFF.search(head))


def read(files: Sequence[SourceFile], options: ReadOptions, piece_bytes: int = PIECE_BYTES) -> Trace:
    """All files as one trace; raises :class:`TraceError` where a file holds no event with a duration."""
    parts = [_read_file(file, order, options, piece_bytes) for order, file in enumerate(files)]
    _check_ranks(parts)
    return assemble(parts, FORMAT)


def _read_file(file: SourceFile, order: int, options: ReadOptions, piece_bytes: int) -> RankRows:
    stream = ChromeStream(file.blocks(), file.name, piece_bytes)
    losses = Losses()
    collected = ChromeRows(order, keep_modules=options.keep_modules)
    for batch in events(stream, losses):
        collected.add(batch)
    rows = collected.finish()
    header = read_header(stream)
    if not len(rows.start_ns):
        raise TraceError(f"{file.name}: {losses.seen} records, none of which is an event with a time and a duration")
    warnings = []
    if stream.cut_short:
        warnings.append(f"{file.name} ends in the middle; what was complete is used")
    health = Health(
        events=losses.seen,
        dropped=dict(losses.dropped + collected.dropped),
        skipped=dict(collected.skipped),
        clipped=dict(collected.clipped + losses.repaired),
        warnings=tuple(warnings),
    )
    return RankRows(
        rank=_rank_of(file, header, order),
        rows=rows,
        file=file.name,
        health=health,
        base_ns=header.base_ns,
        world_size=header.world_size,
        groups=header.groups,
        device=header.device,
        metadata=header.metadata,
    )


def _rank_of(file: SourceFile, header: Header, order: int) -> int:
    if header.rank >= 0:
        return header.rank
    named = _RANK_IN_NAME.search(file.name)
    return int(named[1]) if named else order


def _check_ranks(parts: Sequence[RankRows]) -> None:
    seen: dict[int, str] = {}
    for part in parts:
        if part.rank in seen:
            raise TraceError(
                f"{seen[part.rank]} and {part.file} both are rank {part.rank}; give the files of one run only"
            )
        seen[part.rank] = part.file
