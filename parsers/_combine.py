"""From the content of single files to one trace: rank numbers, then assembly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from parsers._assemble import RankRows, assemble
from parsers._chrome_header import Header
from parsers._ranks import FileFacts, number_ranks
from parsers._rows import Rows
from parsers._times import ABSOLUTE_NS
from replay.trace import Health, Trace


@dataclass(frozen=True, slots=True)
class FileContent:
    """What one file holds."""

    file: str
    rows: Rows
    header: Header
    health: Health


def combine(contents: Sequence[FileContent], format_name: str) -> Trace:
    """All files as one trace. Raises :class:`TraceError` where they cannot be of one run."""
    ranks, warnings = number_ranks([_facts(content) for content in contents])
    parts = [_part(content, rank) for content, rank in zip(contents, ranks, strict=True)]
    trace = assemble(parts, format_name)
    return replace(trace, health=trace.health.merged(Health(warnings=warnings)))


def _facts(content: FileContent) -> FileFacts:
    header = content.header
    start = content.rows.start_ns[content.rows.start_ns > 0] + header.base_ns
    if not len(start) or int(start.min()) < ABSOLUTE_NS:
        return FileFacts(content.file, header.rank, header.world_size)
    return FileFacts(content.file, header.rank, header.world_size, int(start.min()), int(start.max()))


def _part(content: FileContent, rank: int) -> RankRows:
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
