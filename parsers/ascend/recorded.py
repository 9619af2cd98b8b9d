"""The events of a rank: its timeline, or its sqlite export where there is none, or the timeline is not whole.

Text and export of one run hold the same events. The text is preferred, because its tables lie beside it; an export is
taken where the timeline ends in the middle, is damaged, or lacks the host calls, which profilers of level 0 leave out
of the text only. Without a kernel table the export tells the kernels of a whole timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from parsers._chrome_stream import ChromeStream
from parsers.ascend.csv_rows import Row
from parsers.ascend.events import Timeline, read_timeline
from parsers.ascend.exports import read_profile
from parsers.ascend.folder import RankFiles, Role
from parsers.ascend.json_files import Objects
from parsers.source import SourceFile
from replay.core.errors import TraceError

_UNUSED = "sqlite exports beside their timeline"


@dataclass(frozen=True, slots=True)
class Recording:
    """Events of a rank's folder, and what an export told beside them; ``ranks`` are those of devices."""

    file: str
    timeline: Timeline
    kernels: list[Row] = field(default_factory=list)
    memory: list[Row] = field(default_factory=list)
    objects: Objects = field(default_factory=dict)
    ranks: Mapping[int, int] = field(default_factory=dict)
    unused: str = ""  # what was not used, in words for a count


def read_recording(folder: RankFiles, piece_bytes: int) -> Recording:
    """Raises :class:`TraceError` where neither the timeline nor the export can be read."""
    if folder.export is None:
        return _of_text(folder, piece_bytes)
    if not folder.timelines:
        return _of_export(folder.export)
    try:
        text = _of_text(folder, piece_bytes)
    except TraceError as error:
        return _instead(_of_export(folder.export), str(error))
    lacks = _lacks(text.timeline)
    if not lacks and folder.of(Role.KERNELS):
        return replace(text, unused=_UNUSED)
    try:
        export = _of_export(folder.export)
    except TraceError as error:
        text.timeline.notes += (f"{error}; {text.file} is used as it is",)
        return replace(text, unused=_UNUSED)
    if lacks and _lacks(export.timeline) == "":
        return _instead(export, f"{text.file} {lacks}")
    return replace(export, file=text.file, timeline=text.timeline, unused=_UNUSED)


def _of_text(folder: RankFiles, piece_bytes: int) -> Recording:
    streams = [ChromeStream(file.blocks(piece_bytes), folder.name_of(file)) for file in folder.timelines]
    return Recording(streams[0].name, read_timeline(streams))


def _lacks(timeline: Timeline) -> str:
    """Why a timeline is not the whole recording, nothing where it is."""
    if timeline.cut_short:
        return "ends in the middle"
    return "" if timeline.rows["cann"] else "holds no host calls"


def _of_export(file: SourceFile) -> Recording:
    profile = read_profile(file)
    ranks = {rank for rank in profile.ranks.values() if rank >= 0}
    told: dict[str, object] = {"rank_id": ranks.pop()} if len(ranks) == 1 else {}
    objects: Objects = {Role.INFO: [(profile.file, told)], Role.METADATA: [(profile.file, profile.metadata)]}
    return Recording(profile.file, profile.timeline, profile.kernels, profile.memory, objects, profile.ranks)


def _instead(export: Recording, why: str) -> Recording:
    export.timeline.notes += (f"{why}; the export {export.file} is used instead",)
    return replace(export, unused="timelines whose sqlite export is used")
