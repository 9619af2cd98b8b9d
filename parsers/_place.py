"""What a source names: a file, a folder, or a file or folder inside an archive (``matrix.tar.xz/run-1``)."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from parsers._archive import Archive, Span, is_archive, open_archive
from replay.core.errors import TraceError
from replay.core.words import listed


@dataclass(frozen=True, slots=True)
class Place:
    """A path, and where an archive lies there, a path inside of it: ``""`` names the whole."""

    path: Path
    inside: str = ""


def locate(source: Path) -> Place:
    """The archive above ``source`` and the path inside of it; ``source`` itself where there is none, or it exists."""
    if source.exists():
        return Place(source)
    outer = next((folder for folder in source.parents if folder.exists()), None)
    if outer is not None and outer.is_file() and is_archive(outer):
        return Place(outer, source.relative_to(outer).as_posix())
    return Place(source)


def spans_at(place: Place) -> tuple[tuple[Span, ...], tuple[str, ...]]:
    """Members of the archive at ``place`` below ``inside``, and warnings about the archive.

    Raises :class:`TraceError` naming what the archive holds where it holds nothing there.
    """
    archive = open_archive(place.path)
    wanted = PurePosixPath(place.inside).parts
    spans = tuple(span for span in archive.members if _parts(span)[: len(wanted)] == wanted)
    if wanted and not spans:
        raise TraceError(f"{place.path.name}: holds no {place.inside}; {_held(archive, place.inside)}")
    return spans, archive.warnings


def member_beside(place: Place, name: str) -> Span | None:
    """The member called ``name`` in the folder at ``place`` or in that of the file there.

    Where the whole archive is meant, the one that lies highest; none where several do.
    """
    archive = open_archive(place.path)
    found = [span for span in archive.members if _parts(span)[-1:] == (name,)]
    if place.inside:
        inside = PurePosixPath(place.inside)
        folders = (inside.parts, inside.parent.parts)
        return next((span for folder in folders for span in found if _parts(span)[:-1] == folder), None)
    depth = min((len(_parts(span)) for span in found), default=0)
    highest = [span for span in found if len(_parts(span)) == depth]
    return highest[0] if len(highest) == 1 else None


def _parts(span: Span) -> tuple[str, ...]:
    """Folders and name; ``./`` in front, which tar writes, is no folder."""
    return PurePosixPath(span.name).parts


def _held(archive: Archive, wanted: str) -> str:
    folders = sorted({"/".join(_parts(span)[:-1]) for span in archive.members} - {""})
    if not folders:
        return "it holds no folder"
    near = get_close_matches(wanted, folders, n=1)
    return f"did you mean {near[0]}? It holds {listed(folders)}" if near else f"it holds {listed(folders)}"
