"""What of an Ascend profile is not used, and why nothing is where that is so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce

from parsers.ascend.cluster import Cluster
from parsers.ascend.folder import RankFiles, Role
from parsers.ascend.ranks import OF_OPS, Rank
from replay.core.errors import RefusedError, TraceError
from replay.core.words import listed
from replay.trace import Health, Trace

_OF_RAW = {Role.INFO.value, Role.METADATA.value}  # what a profiler leaves beside the data that it has yet to analyse


def left_out(folders: Sequence[RankFiles], skipped: Counter[str]) -> Health:
    """Files whose content is not used, and ranks without a timeline."""
    some = any(folder.has_events for folder in folders)
    unused = (Role.TABLE, Role.SUMMARY) if some else (Role.TABLE,)
    tables = sum(len(folder.of(role)) for folder in folders for role in unused)
    without = sum(some and not folder.has_events and any(map(folder.of, OF_OPS)) for folder in folders)
    warnings = (f"{without} ranks have tables but no timeline and were left out",) if without else ()
    return Health(skipped=dict(+(skipped + Counter({"statistics tables": tables}))), warnings=warnings)


def without_events(ranks: Sequence[Rank]) -> Health:
    """What was lost of ranks of which nothing can be used, and the names of those that have a folder."""
    told = (
        f"{rank.file}: no event with a time and a duration; its rank is left out" for rank in ranks if rank.folder.name
    )
    return reduce(Health.merged, (rank.health for rank in ranks), Health(warnings=tuple(told)))


def on_host(trace: Trace) -> Health:
    """Ranks whose device was not recorded: what a framework does on the host must not pass for what the device did."""
    on_device = set(trace.rank[trace.is_device].tolist())
    bare = [str(rank) for rank in sorted(set(trace.rank.tolist()) - on_device)]
    told = "the device was not recorded (Level_none, or no NPU activity), operators of the host stand for its compute"
    return Health(warnings=(f"rank {listed(bare)}: {told}",) if bare else ())


def why_not(folders: Sequence[RankFiles], damage: Iterable[str] = ()) -> str:
    """What was found instead of a timeline, with what is damaged of it, and how to get one."""
    found = Counter(role.value for folder in folders for role, files in folder.files.items() for _ in files)
    what = ", ".join(f"{count} {word if count == 1 else _several(word)}" for word, count in sorted(found.items()))
    if any(folder.has_events for folder in folders):
        reason = "; ".join(dict.fromkeys(damage)) or "nothing was recorded, or nothing was exported"
        return f"no file of the Ascend output holds any event ({what}): {reason}"
    how = "record with torch_npu's profiler and keep trace_view.json or its sqlite export, or msprof's msprof_*.json"
    if found.keys() <= _OF_RAW:
        how = "the raw data are not analysed yet: run torch_npu.profiler.profiler.analyse(FOLDER) or msprof --export=on"
    return f"the Ascend output holds no timeline ({what}), and without one nothing can be replayed; {how}"


def _several(word: str) -> str:
    """Plural of what a file holds: tables, matrices, lists of communicators, statistics."""
    if word.startswith("list"):
        return word.replace("list", "lists", 1)
    if word.endswith("matrix"):
        return word.replace("matrix", "matrices")
    return word if word.endswith(("s", "data")) else f"{word}s"


def usable(ranks: list[Rank], folders: Sequence[RankFiles], cluster: Cluster) -> list[Rank]:
    """Ranks that have events, or steps where no rank has a timeline. Raises where there is none, telling why."""
    timed = any(folder.has_events for folder in folders)
    stepped = {row.rank for row in cluster.steps}
    summed = [] if timed else [rank for rank in ranks if rank.steps or rank.summaries or rank.number in stepped]
    found = [rank for rank in ranks if len(rank.content.rows) or any(rank is other for other in summed)]
    seen = sum(rank.health.events for rank in ranks)
    if not found and not seen:
        raise RefusedError(why_not(folders, (text for rank in ranks for text in rank.health.warnings)))
    if not found:
        raise TraceError(f"{ranks[0].file}: {seen} records, none of which is an event with a time and a duration")
    return found
