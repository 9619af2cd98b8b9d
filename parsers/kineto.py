"""PyTorch Profiler (Kineto) traces, and Chrome traces of other tools that use its categories. One file per rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from parsers._archive import BLOCK_BYTES
from parsers._assemble import RankRows, assemble
from parsers._chrome_events import Losses, events
from parsers._chrome_header import Header, read_header
from parsers._chrome_rows import ChromeRows
from parsers._chrome_stream import PIECE_BYTES, ChromeStream
from parsers._ranks import FileFacts, number_ranks
from parsers._rows import Rows
from parsers._times import ABSOLUTE_NS
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.trace import Health, Trace

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "kineto"
GENERIC = True  # a Chrome trace of a more special kind belongs to its own parser
_SNIFF = re.compile(
    rb'"traceEvents"\s*:|^\s*\{\s*"schemaVersion"\s*:\s*1\s*,|"distributedInfo"\s*:|^\s*\[\s*\{[^\[\]]{0,4096}?"ph"\s*:'
)


@dataclass(frozen=True, slots=True)
class _FileContent:
    file: str
    rows: Rows
    header: Header
    health: Health


def sniff(head: bytes, path: Path) -> bool:
    """True for a JSON object with ``traceEvents``, or a list of Chrome events."""
    return bool(_SNIFF.search(head))


def read(
    files: Sequence[SourceFile],
    options: ReadOptions,
    *,
    piece_bytes: int = PIECE_BYTES,
    block_bytes: int = BLOCK_BYTES,
) -> Trace:
    """All files as one trace; raises :class:`TraceError` where a file holds no event with a time and a duration."""
    contents = [_read_file(ChromeStream(f.blocks(block_bytes), f.name, piece_bytes), options) for f in files]
    ranks, warnings = number_ranks([_facts(content) for content in contents])
    parts = [_part(content, rank) for content, rank in zip(contents, ranks, strict=True)]
    trace = assemble(parts, FORMAT)
    return replace(trace, health=trace.health.merged(Health(warnings=warnings)))


def _read_file(stream: ChromeStream, options: ReadOptions) -> _FileContent:
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
    )
    return _FileContent(stream.name, rows, read_header(stream), health)


def _facts(content: _FileContent) -> FileFacts:
    start = content.rows.start_ns[content.rows.start_ns > 0] + content.header.base_ns
    header = content.header
    if not len(start) or int(start.min()) < ABSOLUTE_NS:
        return FileFacts(content.file, header.rank, header.world_size)
    return FileFacts(content.file, header.rank, header.world_size, int(start.min()), int(start.max()))


def _part(content: _FileContent, rank: int) -> RankRows:
    header = content.header
    return RankRows(
        rank=rank,
        rows=content.rows,
        file=content.file,
        health=content.health,
        base_ns=header.base_ns,
        world_size=header.world_size,
        groups=header.groups,
        device=header.device,
        metadata=header.metadata,
    )
