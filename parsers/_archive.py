"""Archives read in place: members are spans of one open file, so nothing is unpacked and nothing can escape."""

from __future__ import annotations

import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from parsers._compression import BLOCK_BYTES, decompress, file_blocks, is_compressed

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
ZIP_SUFFIX = ".zip"
_ZIP = b"PK"
_OPEN = 2  # archives kept open: one command reads its members, its run.json and, for another case, the next run
_ENCRYPTED = 0x1  # bit of a zip member's flags


class Storage:
    """The bytes that spans lie in: the archive itself, or an unnamed temporary file with its decompressed content."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes at a position; fewer where the storage ends."""
        return os.pread(self._descriptor, size, offset)

    def stream(self) -> IO[bytes]:
        """The content as a file of its own position."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.fdopen(os.dup(self._descriptor), "rb")


@dataclass(frozen=True, slots=True)
class Span:
    """A member: ``size`` bytes from ``offset`` on."""

    storage: Storage
    name: str
    offset: int
    size: int

    def blocks(self, size: int) -> Iterator[bytes]:
        """The content in blocks. Raises ``EOFError`` where the archive ends inside it."""
        at, end = self.offset, self.offset + self.size
        while at < end:
            block = self.storage.read(at, min(size, end - at))
            if not block:
                raise EOFError("the archive is cut short")
            yield block
            at += len(block)


@dataclass(frozen=True, slots=True)
class Archive:
    """Regular files by name, as far as the archive is whole, and what is to be said about the others."""

    members: tuple[Span, ...]
    warnings: tuple[str, ...] = ()


def is_archive(path: Path) -> bool:
    """True for a tar file, compressed or not, or a zip file, by its name and content."""
    if path.name.endswith(ZIP_SUFFIX):
        with path.open("rb") as file:
            return file.read(len(_ZIP)) == _ZIP
    if not path.name.endswith(TAR_SUFFIXES):
        return False
    try:
        return tarfile.is_tarfile(path)
    except (EOFError, zlib.error):
        return True  # begins like one and is cut short


def open_archive(path: Path) -> Archive:
    """The archive at ``path``. A compressed one is decompressed once, and kept while others are not opened."""
    status = path.stat()
    return _opened(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=_OPEN)
def _opened(path: Path, _size: int, _mtime_ns: int) -> Archive:
    if not path.name.endswith(ZIP_SUFFIX):
        return _open_tar(path)
    try:
        return _open_zip(path)
    except zipfile.BadZipFile:  # its table of members stands at its end
        return Archive((), (f"{path.name} is cut short or damaged",))


def _open_tar(path: Path) -> Archive:
    storage, whole = Storage(os.open(path, os.O_RDONLY)), True
    if is_compressed(storage.read(0, BLOCK_BYTES)):
        storage, whole = _decompressed(storage)
    spans: list[Span] = []
    with storage.stream() as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                regular = (member for member in archive if member.isreg() and member.sparse is None)
                spans.extend(Span(storage, member.name, member.offset_data, member.size) for member in regular)
        except tarfile.TarError:
            whole = False
    cut = () if whole else (f"{path.name} is cut short; the members before are used",)
    return Archive(_by_name(spans), cut)


def _decompressed(stored: Storage) -> tuple[Storage, bool]:
    """The content in an unnamed temporary file, and whether the compressed stream had an end."""
    with tempfile.TemporaryFile() as scratch, stored.stream() as stream:
        whole = True
        try:
            for block in decompress(file_blocks(stream.fileno())):
                scratch.write(block)
        except EOFError:
            whole = False
        scratch.flush()
        return Storage(os.dup(scratch.fileno())), whole


def _open_zip(path: Path) -> Archive:
    """Every member decompressed into an unnamed temporary file, one after the other."""
    places: list[tuple[str, int, int]] = []
    warnings: list[str] = []
    with tempfile.TemporaryFile() as scratch, zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
                continue
            begin = scratch.tell()
            problem = _copy_member(archive, member, scratch)
            if problem:
                warnings.append(f"{path.name}: {Path(member.filename).name} {problem} and left out")
            else:
                places.append((member.filename, begin, scratch.tell() - begin))
        scratch.flush()
        storage = Storage(os.dup(scratch.fileno()))
    return Archive(_by_name([Span(storage, *place) for place in places]), tuple(warnings))


def _copy_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, out: IO[bytes]) -> str:
    """Copies the content; why that is not possible, or ``""``."""
    if member.flag_bits & _ENCRYPTED:
        return "is encrypted"
    try:
        with archive.open(member) as content:
            while block := content.read(BLOCK_BYTES):
                out.write(block)
    except NotImplementedError:
        return "is compressed in a way that is not known here"
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return "is damaged"
    return ""


def _by_name(spans: list[Span]) -> tuple[Span, ...]:
    return tuple(sorted(spans, key=lambda span: span.name))
