"""Formats of measured times: logs of link tests, tables of op latencies. One file per format.

A text format offers ``FORMAT``, ``sniff(head: bytes) -> bool`` and ``read(file: SourceFile) -> Samples``; a table
format (CSV, Parquet) ``FORMAT``, ``claims(columns) -> bool`` and ``read_table(table: Table) -> Samples``; one that
reads tables in its own way ``FORMAT``, ``claims_head(head: bytes) -> bool`` and ``read(file: SourceFile) -> Samples``;
one that must open its files to know them ``claims_file(file: SourceFile) -> bool`` instead of ``claims_head``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from parsers.samples._mapping import Mapping, mapped
from parsers.samples._table import Table, is_table, read_table
from parsers.source import SourceFile, expand
from replay.core.errors import ReplayError, TraceError
from replay.core.plugins import members
from replay.samples import Samples, concatenate

__all__ = ["Found", "Mapping", "find_samples", "read_file", "read_samples"]


@dataclass(frozen=True, slots=True)
class Found:
    """Samples of each file that holds some, why the others do not, and what was noticed about the sources.

    ``unknown`` are the reasons of files of no kind that is known here, which may be parts of a trace.
    """

    parts: tuple[Samples, ...]
    refused: tuple[str, ...]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]

    def merged(self) -> Samples:
        """All samples; refusals are notes. Raises :class:`TraceError` where no file holds a measurement."""
        reasons = (*self.refused, *self.unknown)
        if not self.parts:
            raise TraceError("; ".join(reasons) or "no files")
        merged = concatenate(self.parts)
        return replace(merged, notes=(*self.warnings, *merged.notes, *reasons))


class _UnknownKindError(TraceError):
    """A file of no kind that is known here."""


def find_samples(sources: Sequence[Path], mapping: Mapping | None = None) -> Found:
    """The samples behind files and folders, file by file."""
    expansion = expand(sources)
    parts: list[Samples] = []
    refused: list[str] = []
    unknown: list[str] = []
    for file in expansion.files:
        try:
            parts.append(read_file(file, mapping))
        except _UnknownKindError as error:
            unknown.append(str(error))
        except ReplayError as error:
            refused.append(str(error))
    return Found(tuple(parts), tuple(refused), tuple(unknown), expansion.warnings)


def read_samples(sources: Sequence[Path], mapping: Mapping | None = None) -> Samples:
    """All samples behind files and folders; what was refused is in the notes, with its reason.

    Raises :class:`TraceError` where no file holds a measurement.
    """
    return find_samples(sources, mapping).merged()


def read_file(file: SourceFile, mapping: Mapping | None = None) -> Samples:
    """Samples of one file. Raises :class:`TraceError` with reason (and line) where it holds none."""
    head = file.head()
    own = next((module for module in _formats("claims_head") if module.claims_head(head)), None)
    own = own or next((module for module in _formats("claims_file") if module.claims_file(file)), None)
    if own is not None:
        samples: Samples = own.read(file)
    else:
        samples = _of_table(read_table(file, head), mapping) if is_table(head, file.name) else _of_text(file, head)
    if not len(samples):
        why = "; ".join(samples.notes) or f"{file.name}: no measurement in it"
        raise TraceError(why)
    return samples


def _of_table(table: Table, mapping: Mapping | None) -> Samples:
    if mapping is not None and mapping.fits(table):
        return mapped(table, mapping)
    for module in _formats("claims"):
        if module.claims(table.columns):
            found: Samples = module.read_table(table)
            return found
    raise _UnknownKindError(
        f"{table.name}:1: a table of an unknown kind, with columns {', '.join(table.columns[:12])}"
        f"{', …' if len(table.columns) > 12 else ''}; say what they mean with --mapping (docs/reference/samples.md)"
    )


def _of_text(file: SourceFile, head: bytes) -> Samples:
    for module in _formats("sniff"):
        if module.sniff(head):
            found: Samples = module.read(file)
            return found
    first = next((line for line in head.decode("utf-8", "replace").splitlines() if line.strip()), "")
    kinds = ("sniff", "claims", "claims_head", "claims_file")
    known = ", ".join(module.FORMAT for kind in kinds for module in _formats(kind))
    raise _UnknownKindError(
        f"{file.name}:1: holds no measurement that is known ({first.strip()[:80]!r}); known: {known}"
    )


def _formats(kind: str) -> list[ModuleType]:
    return [module for module in members("parsers.samples").values() if hasattr(module, kind)]
