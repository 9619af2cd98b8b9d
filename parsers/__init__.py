"""Parsers: one file per input format.

Each member offers ``FORMAT: str``, ``sniff(head: bytes, path: Path) -> bool`` over the first decompressed bytes, and
``read(files: Sequence[SourceFile], options: ReadOptions) -> Trace | PipelineRecording | RunLog``. A member with
``GENERIC = True`` is asked last, so that a format which is a special case of it wins. A member with
``recognise(file: SourceFile) -> bool`` is asked about a file whose beginning told nothing, and may open it. A member
with ``COMPANIONS`` (a pattern of file names) leaves out other exports of the same job that lie beside its own files. A
member with ``search(file: SourceFile) -> bool`` is asked again, about the whole of a text file, where no beginning told
anything. A member with ``BESIDE_OTHERS = True`` (logs lie beside the traces of their job) gives way to every other
format. A member with ``is_shared(file: SourceFile) -> bool`` tells files that ranks write beside their recordings:
there, the same content in two folders is no mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from parsers import run_description
from parsers.source import Expansion, SourceFile, expand
from replay.core.errors import TraceError
from replay.core.plugins import members
from replay.core.words import listed
from replay.recording import PipelineRecording
from replay.runlog import RunLog
from replay.trace import Health, Trace

Recorded = Trace | PipelineRecording | RunLog


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """``trace_processor`` is a path to Perfetto's trace_processor_shell; ``keep_modules`` keeps nn.Module rows."""

    trace_processor: str | None = None
    keep_modules: bool = True


def read(sources: Sequence[Path], options: ReadOptions | None = None) -> Recorded:
    """Read files or folders of one measurement. Raises :class:`TraceError` where they hold nothing usable."""
    formats = _formats()
    expansion = expand(sources, is_shared=lambda file: _is_shared(file, formats))
    _check_one_run(expansion.files)
    claimed: dict[str, list[SourceFile]] = {}
    unclaimed: list[SourceFile] = []
    for file in expansion.files:
        name = _claim(file, formats)
        if name:
            claimed.setdefault(name, []).append(file)
        else:
            unclaimed.append(file)
    if not claimed:
        claimed, unclaimed = _search(unclaimed, formats)
    if not claimed:
        raise _unknown(unclaimed, formats)
    claimed, companions = _without_companions(claimed, formats)
    claimed, beside = _without_logs(claimed, formats)
    unclaimed += companions + beside
    unclaimed = [file for file in unclaimed if file.name != run_description.FILE_NAME]  # read by its own parser
    if len(claimed) > 1:
        examples = ", ".join(f"{files[0].name} ({formats[name].FORMAT})" for name, files in claimed.items())
        raise TraceError(f"the inputs are of different formats: {examples}; give the files of one measurement")
    ((name, files),) = claimed.items()
    result: Recorded = formats[name].read(files, options or ReadOptions())
    return replace(result, health=result.health.merged(_health_of(expansion, unclaimed)))


def _check_one_run(files: Sequence[SourceFile]) -> None:
    """Raises :class:`TraceError` naming the folders of several runs, each with its description."""
    runs = sorted({file.location.parent.name for file in files if file.name == run_description.FILE_NAME})
    if len(runs) > 1:
        raise TraceError(
            f"the input holds several runs ({listed(runs)}); name the folder of one, also inside of an archive"
        )


def _formats() -> dict[str, ModuleType]:
    """Members that parse recordings, special cases before generic ones."""
    found = {name: module for name, module in members("parsers").items() if hasattr(module, "sniff")}
    return dict(sorted(found.items(), key=lambda item: getattr(item[1], "GENERIC", False)))


def _claim(file: SourceFile, formats: dict[str, ModuleType]) -> str:
    """Name of the format that a file is of, empty where none knows it."""
    head = file.head()
    found = next((name for name, module in formats.items() if module.sniff(head, file.location)), "")
    opening = ((name, module.recognise) for name, module in formats.items() if hasattr(module, "recognise"))
    return found or next((name for name, recognise in opening if recognise(file)), "")


def _is_shared(file: SourceFile, formats: dict[str, ModuleType]) -> bool:
    """Whether a format says of a file that other ranks may have one of the same content."""
    name = _claim(file, formats)
    return bool(name) and hasattr(formats[name], "is_shared") and bool(formats[name].is_shared(file))


def _search(
    files: Sequence[SourceFile], formats: dict[str, ModuleType]
) -> tuple[dict[str, list[SourceFile]], list[SourceFile]]:
    """Text files that a format recognises by what comes later in them, and the others."""
    claimed: dict[str, list[SourceFile]] = {}
    unclaimed: list[SourceFile] = []
    for file in files:
        text = b"\0" not in file.head()
        searching = (name for name, module in formats.items() if text and hasattr(module, "search"))
        name = next((name for name in searching if formats[name].search(file)), "")
        (claimed.setdefault(name, []) if name else unclaimed).append(file)
    return claimed, unclaimed


def _without_companions(
    claimed: dict[str, list[SourceFile]], formats: dict[str, ModuleType]
) -> tuple[dict[str, list[SourceFile]], list[SourceFile]]:
    """Claims without the companions of formats that have some, and those companions."""
    kept, companions = dict(claimed), list[SourceFile]()
    for owner in [name for name in claimed if hasattr(formats[name], "COMPANIONS")]:
        folders = {file.path.parent for file in claimed[owner]}
        for name in [name for name in kept if name != owner]:
            beside = [f for f in kept[name] if f.path.parent in folders and formats[owner].COMPANIONS.match(f.name)]
            companions += beside
            kept[name] = [file for file in kept[name] if file not in beside]
    return {name: files for name, files in kept.items() if files}, companions


def _without_logs(
    claimed: dict[str, list[SourceFile]], formats: dict[str, ModuleType]
) -> tuple[dict[str, list[SourceFile]], list[SourceFile]]:
    """Claims without those of formats that give way, where there are others; and the files of those."""
    giving_way = [name for name in claimed if getattr(formats[name], "BESIDE_OTHERS", False)]
    if len(giving_way) == len(claimed):
        return claimed, []
    beside = [file for name in giving_way for file in claimed[name]]
    return {name: files for name, files in claimed.items() if name not in giving_way}, beside


def _health_of(expansion: Expansion, unclaimed: Sequence[SourceFile]) -> Health:
    skipped = dict(expansion.skipped)
    warnings = list(expansion.warnings)
    if unclaimed:
        skipped["files that are not traces"] = len(unclaimed)
        shown = ", ".join(file.name for file in unclaimed[:3]) + (", …" if len(unclaimed) > 3 else "")
        warnings.append(f"{len(unclaimed)} files are not traces and were left out: {shown}")
    return Health(skipped=skipped, warnings=tuple(warnings))


def _unknown(files: Sequence[SourceFile], formats: dict[str, ModuleType]) -> TraceError:
    known = ", ".join(sorted(module.FORMAT for module in formats.values()))
    return TraceError(f"{files[0].name}: {_seen(files[0].head())}; formats that can be read: {known}")


def _seen(head: bytes) -> str:
    """What a file looks like, in words."""
    text = head.lstrip()[:64].lower()
    if not text:
        return "the file is empty"
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "this is an HTML or XML page, not a trace (a failed download?)"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "this is a Python pickle, which is never loaded"
    if text[:1] in (b"{", b"["):
        return "this is JSON, but it holds no trace events"
    if text.startswith(b"version https://git-lfs"):
        return "this is a Git LFS pointer, not the file itself"
    if head.startswith(b"SQLite format 3\0"):
        return "this is a sqlite database, but none that a profiler exported, or damaged beyond reading"
    if b"\0" in head:
        return "this is a binary file of an unknown kind"
    return "this is text of an unknown kind"
