"""Where bytes come from: files, folders, gzip and tar archives, all read as streams of decompressed blocks."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from replay.core.errors import TraceError

BLOCK_BYTES = 1 << 20
HEAD_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One input file: a path, or a member of a tar archive at that path. Nothing is ever unpacked to disk."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """File name without folders (which may tell user or host names)."""
        return PurePosixPath(self.member).name if self.member else self.path.name

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The decompressed content as a binary stream."""
        with self._open_stored() as stored:
            buffered = io.BufferedReader(stored) if isinstance(stored, io.RawIOBase) else stored
            magic = buffered.read(2)
            buffered.seek(0)
            if magic == GZIP_MAGIC:
                with gzip.GzipFile(fileobj=buffered) as stream:
                    yield stream  # type: ignore[misc]
            else:
                yield buffered

    @contextmanager
    def _open_stored(self) -> Iterator[IO[bytes]]:
        if not self.member:
            with self.path.open("rb") as stream:
                yield stream
            return
        with tarfile.open(self.path) as archive:
            stream_or_none = archive.extractfile(self.member)
            if stream_or_none is None:
                raise TraceError(f"{self.path.name}: member {self.member!r} is not a regular file")
            with stream_or_none as stream:
                yield stream

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Decompressed blocks of at most ``size`` bytes. Raises ``EOFError`` where a compressed file is cut short."""
        with self.open() as stream:
            try:
                while block := stream.read(size):
                    yield block
            except (zlib.error, gzip.BadGzipFile, tarfile.ReadError) as error:
                raise EOFError(str(error)) from error

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first ``size`` decompressed bytes, fewer where the file ends (or is damaged) before."""
        parts: list[bytes] = []
        try:
            for block in self.blocks(min(size, BLOCK_BYTES)):
                parts.append(block)
                if sum(map(len, parts)) >= size:
                    break
        except EOFError:
            pass
        return b"".join(parts)[:size]

    def read(self) -> bytes:
        """The whole decompressed content; for formats whose files are small."""
        try:
            return b"".join(self.blocks())
        except EOFError as error:
            raise TraceError(f"{self.name}: the compressed file is cut short or damaged ({error})") from error


@dataclass(frozen=True, slots=True)
class Expansion:
    """Files found behind the given sources, and what was left out on the way (reason → count)."""

    files: tuple[SourceFile, ...]
    skipped: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def expand(sources: Sequence[Path]) -> Expansion:
    """All files behind ``sources`` (files, folders, tar archives), each content once.

    Raises :class:`TraceError` where a source does not exist or nothing is behind any of them.
    """
    found: list[SourceFile] = []
    for source in sources:
        if not source.exists():
            raise TraceError(f"{source.name}: no such file or folder")
        found.extend(_files_behind(source))
    skipped: dict[str, int] = {}
    warnings: list[str] = []
    kept: dict[str, SourceFile] = {}
    for file in found:
        reason = _reason_to_skip(file)
        if reason:
            skipped[reason] = skipped.get(reason, 0) + 1
            continue
        digest = _sha256(file)
        if digest in kept:
            skipped["same file given twice"] = skipped.get("same file given twice", 0) + 1
            warnings.append(f"{file.name} has the same content as {kept[digest].name}; taken once")
            continue
        kept[digest] = file
    if not kept:
        what = "; ".join(f"{count} {reason}" for reason, count in skipped.items()) or "it is empty"
        raise TraceError(f"{', '.join(s.name for s in sources)}: nothing to read ({what})")
    return Expansion(tuple(kept.values()), skipped, tuple(warnings))


def _files_behind(source: Path) -> Iterator[SourceFile]:
    if source.is_dir():
        for path in sorted(p for p in source.rglob("*") if p.is_file()):
            yield from _files_behind(path)
    elif _is_tar(source):
        with tarfile.open(source) as archive:
            names = sorted(member.name for member in archive if member.isfile())
        yield from (SourceFile(source, name) for name in names)
    else:
        yield SourceFile(source)


def _is_tar(path: Path) -> bool:
    return path.name.endswith((".tar", ".tar.gz", ".tgz")) and path.stat().st_size > 0 and tarfile.is_tarfile(path)


def _reason_to_skip(file: SourceFile) -> str:
    if file.name.startswith("._"):
        return "resource fork files"
    if file.name.startswith("."):
        return "hidden files"
    with file._open_stored() as stream:
        empty = not stream.read(1)
    return "empty files (0 bytes)" if empty else ""


def _sha256(file: SourceFile) -> str:
    digest = hashlib.sha256()
    with file._open_stored() as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
