"""The events of a rank: its timeline, or its sqlite export where there is none, or the timeline is not whole.

Text and export of one run hold the same events. The text is preferred, because its tables lie beside it; an export is
taken where the timeline ends in the middle, is damaged, or lacks the host calls, which profilers of level 0 leave out
of the text only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from parsers._chrome_stream import ChromeStream
from parsers.ascend.csv_rows import Row
from parsers.ascend.events import Timeline, read_timeline
from parsers.ascend.exports import Profile, read_profile
from parsers.ascend.folder import RankFiles, Role
from parsers.ascend.tables import Objects
from replay.core.errors import TraceError


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
    if not folder.timelines:
        return _of_export(_profile(folder))
    name = folder.timelines[0].name
    try:
        timeline = read_timeline([ChromeStream(file.blocks(piece_bytes), file.name) for file in folder.timelines])
    except TraceError as error:
        if folder.export is None:
            raise
        return _instead(_of_export(_profile(folder)), f"{error}; the export {folder.export.name} is used instead")
    if folder.export is None:
        return Recording(name, timeline)
    reason = _lacks(timeline)
    profile = _profile(folder) if reason else None
    if profile is None or not profile.timeline.rows["cann"]:
        return Recording(name, timeline, unused="sqlite exports beside their timeline")
    return _instead(_of_export(profile), f"{name} {reason}; the export {profile.file} is used instead")


def _profile(folder: RankFiles) -> Profile:
    if folder.export is None:
        raise TraceError(f"{folder.folder.name}: neither a timeline nor a sqlite export")
    return read_profile(folder.export)


def _lacks(timeline: Timeline) -> str:
    """Why a timeline is not the whole recording, nothing where it is."""
    if timeline.cut_short:
        return "ends in the middle"
    return "" if timeline.rows["cann"] else "holds no host calls"


def _of_export(profile: Profile) -> Recording:
    ranks = {rank for rank in profile.ranks.values() if rank >= 0}
    told: dict[str, object] = {"rank_id": ranks.pop()} if len(ranks) == 1 else {}
    objects: Objects = {Role.INFO: [(profile.file, told)], Role.METADATA: [(profile.file, profile.metadata)]}
    return Recording(profile.file, profile.timeline, profile.kernels, profile.memory, objects, profile.ranks)


def _instead(recording: Recording, why: str) -> Recording:
    recording.timeline.notes += (why,)
    return replace(recording, unused="timelines whose sqlite export is used")
