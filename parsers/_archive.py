"""Tar archives read in place: members are spans of one open file, so nothing is unpacked and nothing can escape."""

from __future__ import annotations

import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from isal import isal_zlib  # twice as fast as zlib, which took a tenth of reading a trace

BLOCK_BYTES = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"


class Archive:
    """An open tar file. A compressed one is decompressed once into an unnamed temporary file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self.cut_short = False
        if os.pread(self._descriptor, len(GZIP_MAGIC), 0) == GZIP_MAGIC:
            self._decompress()

    def __del__(self) -> None:
        os.close(self._descriptor)

    def _decompress(self) -> None:
        with tempfile.TemporaryFile() as scratch:
            try:
                for block in gunzip(file_blocks(self._descriptor), BLOCK_BYTES):
                    scratch.write(block)
            except EOFError:
                self.cut_short = True
            scratch.flush()
            os.close(self._descriptor)
            self._descriptor = os.dup(scratch.fileno())

    def members(self) -> list[Span]:
        """Regular files by name, as far as the archive is whole."""
        spans: list[Span] = []
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._descriptor), "rb") as stream:
            try:
                with tarfile.open(fileobj=stream, mode="r:") as archive:
                    regular = (member for member in archive if member.isreg() and member.sparse is None)
                    spans.extend(Span(self, member.name, member.offset_data, member.size) for member in regular)
            except tarfile.TarError:
                self.cut_short = True
        return sorted(spans, key=lambda span: span.name)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes at a position; fewer where the archive ends."""
        return os.pread(self._descriptor, size, offset)


@dataclass(frozen=True, slots=True)
class Span:
    """A member: ``size`` bytes from ``offset`` on."""

    archive: Archive
    name: str
    offset: int
    size: int

    def blocks(self, size: int) -> Iterator[bytes]:
        """The content in blocks. Raises ``EOFError`` where the archive ends inside it."""
        at, end = self.offset, self.offset + self.size
        while at < end:
            block = self.archive.read(at, min(size, end - at))
            if not block:
                raise EOFError("the archive is cut short")
            yield block
            at += len(block)


def is_archive(path: Path) -> bool:
    """True for a tar file, compressed or not, by its name and content."""
    if not path.name.endswith((".tar", ".tar.gz", ".tgz")):
        return False
    try:
        return tarfile.is_tarfile(path)
    except (EOFError, zlib.error):
        return True  # begins like one and is cut short


def file_blocks(descriptor: int, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Blocks of an open file from its begin."""
    at = 0
    while block := os.pread(descriptor, size, at):
        yield block
        at += len(block)


def gunzip(stored: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Decompressed blocks of a gzip stream, which may have several members.

    Raises ``EOFError`` after all that can be had of a stream that is damaged or has no end.
    """
    member = isal_zlib.decompressobj(wbits=31)
    for block in stored:
        rest = block
        while rest:
            if member.eof:
                if not rest.startswith(GZIP_MAGIC):
                    return  # padding after the last member
                member = isal_zlib.decompressobj(wbits=31)
            try:
                yield member.decompress(rest, size)
            except isal_zlib.IsalError as error:  # type: ignore[misc]  # its stub types the class as an instance
                raise EOFError(str(error)) from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        raise EOFError("the compressed stream has no end")
