"""Where bytes come from: files, folders and archives, compressed or not, all read as streams of decompressed blocks."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from parsers._archive import Span, is_archive
from parsers._compression import BLOCK_BYTES, decompress
from parsers._place import Place, locate, member_beside, spans_at
from replay.core.errors import TraceError

HEAD_BYTES = 1 << 16
_EMPTY = "empty files (0 bytes)"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One input file: a path, or a member of an archive at that path."""

    path: Path
    span: Span | None = None

    @property
    def name(self) -> str:
        """File name without folders (which may tell user or host names)."""
        return PurePosixPath(self.span.name).name if self.span else self.path.name

    @property
    def location(self) -> Path:
        """Path of the file, or of the member inside its archive; for rules about names and folders."""
        return Path(self.span.name) if self.span else self.path

    @property
    def folder(self) -> Path:
        """Folder of the file, that of a member below its archive's own path."""
        return (self.path / self.location).parent if self.span else self.path.parent

    def stored_blocks(self, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """The content as stored, perhaps compressed."""
        if self.span:
            yield from self.span.blocks(size)
            return
        with self.path.open("rb") as stream:
            while block := stream.read(size):
                yield block

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Decompressed blocks of about ``size`` bytes. Raises ``EOFError`` where a compressed file is cut short."""
        return decompress(self.stored_blocks(size), size)

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first ``size`` decompressed bytes, fewer where the file ends (or is damaged) before."""
        head = bytearray()
        try:
            for block in self.blocks(size):
                head += block
                if len(head) >= size:
                    break
        except EOFError:
            pass
        return bytes(head[:size])

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


def expand(sources: Sequence[Path], is_shared: Callable[[SourceFile], bool] = lambda file: False) -> Expansion:
    """All files behind ``sources`` (files, folders, archives, folders inside of archives), each content once.

    Files with ``is_shared`` are kept once in each folder: what ranks write beside their recordings is often the same.
    Raises :class:`TraceError` where a source does not exist or nothing is behind any of them.
    """
    skipped: Counter[str] = Counter()
    warnings: list[str] = []
    kept: dict[bytes, SourceFile] = {}
    repeated: Counter[tuple[str, str]] = Counter()
    empty: list[str] = []
    for source in sources:
        place = locate(source)
        if not place.path.exists():
            raise TraceError(f"{source.name}: no such file or folder")
        for file in _files_at(place, warnings):
            reason = _reason_to_skip(file, given=file.path == source and file.span is None)
            digest = b"" if reason else _sha256(file)
            if digest in kept and file.folder != kept[digest].folder and is_shared(file):
                digest += str(file.folder).encode()
            if digest in kept:
                reason = "files given twice"
                repeated[file.name, kept[digest].name] += 1
            if reason:
                skipped[reason] += 1
                empty += [file.name] if reason == _EMPTY else []
            else:
                kept[digest] = file
    warnings += [_repeats(name, first, count) for (name, first), count in repeated.items()]
    if not kept:
        what = "; ".join([*(f"{count} {reason}" for reason, count in skipped.items()), *warnings]) or "no files"
        raise TraceError(f"{', '.join(source.name for source in sources)}: nothing to read ({what})")
    if empty:  # a rank that wrote nothing must not be missed in silence
        warnings.append(f"{', '.join(empty)}: empty (0 bytes) and left out")
    return Expansion(tuple(kept.values()), dict(skipped), tuple(warnings))


def _repeats(name: str, first: str, count: int) -> str:
    """Settings are often the same on every rank, and files of that name many."""
    same = (
        f"{count + 1} files {name} have the same content"
        if name == first
        else f"{name} has the same content as {first}"
    )
    return f"{same}; taken once"


def exists(source: Path) -> bool:
    """Whether ``source`` is a file or folder, or a path into an archive that is there."""
    return locate(source).path.exists()


def beside(source: Path, name: str) -> SourceFile | None:
    """The file called ``name`` in the folder ``source`` or beside the file ``source``, also inside of an archive."""
    place = locate(source)
    if is_archive_at(place):
        span = member_beside(place, name)
        if span or place.inside:
            return SourceFile(place.path, span) if span else None
    path = (source if source.is_dir() else source.parent) / name
    return SourceFile(path) if path.is_file() else None


def is_archive_at(place: Place) -> bool:
    """Whether the files at ``place`` are members of an archive."""
    return bool(place.inside) or (place.path.is_file() and is_archive(place.path))


def _files_at(place: Place, warnings: list[str]) -> Iterator[SourceFile]:
    """Files of a folder at any depth, archives in it opened; members of an archive; else the file itself."""
    if place.path.is_dir():
        for path in sorted(_below(place.path)):
            yield from _files_at(Place(path), warnings)
    elif is_archive_at(place):
        spans, about = spans_at(place)
        yield from (SourceFile(place.path, span) for span in spans)
        warnings += about
    else:
        yield SourceFile(place.path)


def _reason_to_skip(file: SourceFile, *, given: bool) -> str:
    if not given and file.name.endswith(".tmp"):
        return "unfinished files (.tmp)"  # a profiler renames its file when it is complete
    if file.name.startswith("."):
        return "hidden files"  # among them the ._name resource forks that macOS leaves in archives
    if next(file.stored_blocks(1), b"") == b"":
        return _EMPTY
    return ""


def _sha256(file: SourceFile) -> bytes:
    digest = hashlib.sha256()
    try:
        for block in file.stored_blocks():
            digest.update(block)
    except EOFError:
        pass  # the parser reports a member that is cut short
    return digest.digest()


def _below(folder: Path) -> Iterator[Path]:
    """Files of a folder at any depth; links to folders are followed, each folder once.

    Folders that tools hide from users (``.git``, ``.venv``) are left out.
    """
    seen: set[str] = set()
    for inside, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(inside)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and real not in seen)
        if real not in seen:
            yield from (path for name in names if (path := Path(inside, name)).is_file())
        seen.add(real)
