"""AMD Primus pipeline dumps: ``*_pp_rank_<r>.json`` of every pipeline rank and one ``*_config.json``.

Format sheet: ``{"<iteration>": {"total", "memory", "fwd_start": […], "fwd_end", "bwd_start", "bwd_end"}}``, ms from the
iteration's start; position in the lists is the order of execution of that phase on that rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parsers._passes import Intake, PassRow, Source, complete_steps, load_json, recording
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.core.units import NS_PER_MS, NS_PER_US
from replay.layout import Layout
from replay.recording import PassKind, PipelineRecording

FORMAT = "primus"
RESOLUTION_NS = NS_PER_US  # times are float64 ms of a device event timer that counts in us
_RANK = re.compile(r"_pp_rank_(\d+)\.json(\.gz)?$")
_JOB_FACT = re.compile(r"(?:^|_)(layer|gbs)(\d+)(?=_|$)")  # gpu8_layer64_gbs16_pp8
_PHASES = ((PassKind.FORWARD, "fwd", "forward"), (PassKind.BACKWARD, "bwd", "backward"))


def sniff(head: bytes, path: Path) -> bool:
    """A rank's dump by its keys, or the config that goes with it."""
    if head.lstrip()[:1] != b"{":
        return False
    is_dump = b'"fwd_start"' in head or (b'"bwd_start"' in head and b'"total"' in head)
    return is_dump or bool(_RANK.search(path.name)) or (b'"pp_size"' in head and b'"num_mbs"' in head)


def read(files: Sequence[SourceFile], options: object) -> PipelineRecording:
    """One recording of all ranks. Raises :class:`TraceError` for missing ranks and when no iteration is complete."""
    del options
    intake = Intake()
    dumps, configs = _one_job(files)
    facts = _job_facts(dumps[min(dumps)], intake)
    rows: list[PassRow] = []
    totals: dict[int, int] = {}
    for rank, file in dumps.items():
        for step, record in _iterations(_load(file), file):
            rows += _rows(rank, step, record, intake)
            if isinstance(total := record.get("total"), int | float):
                totals[step] = max(totals.get(step, 0), round(total * NS_PER_MS))
    layout = _with_batch(_layout(configs, sorted(dumps), rows, intake), facts.get("gbs"))
    complete = complete_steps(_labelled(rows, layout), layout, intake, dumps[min(dumps)].name)
    kept = {row.step for row in complete}
    source = Source(
        layout,
        RESOLUTION_NS,
        FORMAT,
        tuple(file.name for file in files),
        {step: total for step, total in sorted(totals.items()) if step in kept},
        facts.get("layer"),
    )
    return recording(complete, source, intake.health())


def _one_job(files: Sequence[SourceFile]) -> tuple[dict[int, SourceFile], list[SourceFile]]:
    """Dumps by pipeline rank, and the config. Raises :class:`TraceError` for several jobs, or none."""
    jobs: dict[str, dict[int, SourceFile]] = {}
    for file in files:
        if match := _RANK.search(file.name):
            jobs.setdefault(file.name[: match.start()], {})[int(match[1])] = file
    if not jobs:
        name = files[0].name
        raise TraceError(f"{name}: no *_pp_rank_<r>.json beside it; give the folder that holds every rank's dump")
    if len(jobs) > 1:
        raise TraceError(f"dumps of {len(jobs)} jobs: {', '.join(sorted(jobs))}; give the files of one")
    return next(iter(jobs.values())), [file for file in files if not _RANK.search(file.name)]


def _job_facts(file: SourceFile, intake: Intake) -> dict[str, int]:
    """Layers and global batch, where the job's name tells them."""
    match = _RANK.search(file.name)
    facts = {key: int(number) for key, number in _JOB_FACT.findall(file.name[: match.start()] if match else "")}
    if facts:
        intake.inferred["layers and global batch, from the job's name"] += len(facts)
    return {key: number for key, number in facts.items() if number > 0}


def _with_batch(layout: Layout, gbs: int | None) -> Layout:
    """The layout with global and micro-batch size, when the name's global batch fits the micro-batches recorded."""
    per_sequence = layout.dp * (layout.microbatches or 1)
    if gbs is None or gbs % per_sequence:
        return layout
    return replace(layout, gbs=gbs, mbs=gbs // per_sequence)


def _load(file: SourceFile) -> dict[str, Any]:
    document = load_json(file)
    if not isinstance(document, dict):
        raise TraceError(f"{file.name}: expected an object of iterations")
    return document


def _iterations(document: dict[str, Any], file: SourceFile) -> list[tuple[int, dict[str, Any]]]:
    """(iteration number, its record) of a dump."""
    found = []
    for key, record in document.items():
        if not key.isdecimal() or not isinstance(record, dict):
            raise TraceError(f"{file.name}: key {key!r} is not an iteration number with its record")
        found.append((int(key), record))
    return found


def _rows(rank: int, step: int, record: dict[str, Any], intake: Intake) -> list[PassRow]:
    """Passes of one rank in one iteration, not labelled yet (-1)."""
    rows = []
    for kind, prefix, name in _PHASES:
        starts, ends = record.get(f"{prefix}_start") or [], record.get(f"{prefix}_end") or []
        if len(starts) != len(ends):
            intake.dropped["starts without an end, or ends without a start"] += abs(len(starts) - len(ends))
        for order, (start, end) in enumerate(zip(starts, ends, strict=False)):
            intake.events += 1
            if not (isinstance(start, int | float) and isinstance(end, int | float)):
                intake.dropped["passes whose times are not finite"] += 1
                continue
            times = intake.span(start * NS_PER_MS, end * NS_PER_MS, RESOLUTION_NS)
            if times is not None:
                rows.append(PassRow(step, 0, rank, kind, -1, -1, order, *times, name))
    if not rows:
        intake.skipped["iterations without passes on a rank"] += 1
    return rows


def _labelled(rows: Sequence[PassRow], layout: Layout) -> Sequence[PassRow]:
    """With one chunk a rank, the k-th pass of a phase is micro-batch k; otherwise the schedule has to tell."""
    if layout.vpp > 1:
        return rows
    return [row._replace(chunk=0, microbatch=row.order) for row in rows]


def _layout(configs: Sequence[SourceFile], ranks: Sequence[int], rows: Sequence[PassRow], intake: Intake) -> Layout:
    """Sizes from the config; without one, from the files: one chunk a rank, as many micro-batches as forwards."""
    config = _load(configs[0]) if configs else {}
    if not configs:
        intake.inferred["sizes of the layout: no *_config.json"] += 1
        intake.warnings.append("no *_config.json: one chunk a rank and dp = tp = 1 are assumed")
    pp = _size(config, "pp_size", max(ranks) + 1)
    missing = sorted(set(range(pp)) - set(ranks))
    if missing:
        names = ", ".join(map(str, missing))
        raise TraceError(f"dumps of pipeline ranks {names} of {pp} are missing; give the folder with every rank's dump")
    vpp, dp, tp, ep = (_size(config, key, 1) for key in ("vp_size", "dp_size", "tp_size", "ep_size"))
    forwards = max((row.order + 1 for row in rows if row.kind == PassKind.FORWARD), default=1)
    return Layout(
        tp=tp,
        pp=pp,
        vpp=vpp,
        dp=dp,
        ep=ep,
        microbatches=_size(config, "num_mbs", max(1, forwards // vpp)),
        world_size=_size(config, "world_size", tp * pp * dp),
        schedule="interleaved" if vpp > 1 else "1f1b",
        group_size=pp if vpp > 1 else None,
    )


def _size(config: dict[str, Any], key: str, default: int) -> int:
    """A positive integer of the config; ``default`` when absent or null."""
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or value < 1:
        raise TraceError(f"*_config.json: {key} must be a positive whole number, got {value!r}")
    return value
