"""MegatronApp: a list of Chrome B/E spans ``forward`` and ``backward`` with the labels on the E event.

Format sheet: ``pid`` is the pipeline rank, ``ts`` is in µs from 0, ``iteration`` is on both events, ``microbatch``,
``model_chunk`` and ``pp_rank`` on the E event only; the rest are instants (``iteration begin`` and alike).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parsers._passes import Intake, PassRow, Source, complete_steps, load_json, recording
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.core.units import NS_PER_US
from replay.layout import Layout
from replay.recording import PassKind, PipelineRecording

FORMAT = "megatronapp"
KINDS = {"forward": PassKind.FORWARD, "backward": PassKind.BACKWARD}
_LABELS = re.compile(rb'"model_chunk"\s*:\s*\d+\s*,\s*"pp_rank"|"pp_rank"\s*:\s*\d+\s*,\s*"model_chunk"')


def sniff(head: bytes, path: Path) -> bool:
    """Chrome events that name a model chunk next to a pipeline rank."""
    del path
    return head.lstrip()[:1] in (b"[", b"{") and bool(_LABELS.search(head)) and b'"ph"' in head


def read(files: Sequence[SourceFile], options: object) -> PipelineRecording:
    """One recording of one or more files. Raises :class:`TraceError` when no iteration is complete."""
    del options
    intake = Intake()
    rows: list[PassRow] = []
    for file in files:
        rows += _file_rows(file, intake)
    where = files[0].name
    if not rows:
        raise TraceError(f"{where}: no forward or backward span has both a begin and a labelled end event")
    layout = _layout(rows, where)
    intake.inferred["sizes of the layout, from the labels"] += 1
    complete = complete_steps(rows, layout, intake, where)
    source = Source(layout, NS_PER_US, FORMAT, tuple(file.name for file in files))
    return recording(complete, source, intake.health())


@dataclass
class _Open:
    """Begin times of spans that have not ended, and how many of each kind a (rank, step) has had."""

    begins: dict[tuple[Any, str], list[Any]] = field(default_factory=lambda: defaultdict(list))
    seen: Counter[tuple[int, int, PassKind]] = field(default_factory=Counter)


def _file_rows(file: SourceFile, intake: Intake) -> list[PassRow]:
    open_spans = _Open()
    rows = []
    for event in _events(file):
        intake.events += 1
        name = event.get("name") if isinstance(event, dict) else None
        if name not in KINDS or event.get("ph") not in ("B", "E"):
            intake.skipped["events that are not passes"] += 1
            continue
        lane = (event.get("pid"), str(name))
        if event["ph"] == "B":
            open_spans.begins[lane].append(event.get("ts"))
        elif (row := _close(event, lane, open_spans, intake)) is not None:
            rows.append(row)
    left = sum(map(len, open_spans.begins.values()))
    if left:
        intake.dropped["begin events without an end"] += left
    return rows


def _events(file: SourceFile) -> list[Any]:
    document = load_json(file)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise TraceError(f"{file.name}: expected a list of Chrome events")
    return events


def _close(event: dict[str, Any], lane: tuple[Any, str], spans: _Open, intake: Intake) -> PassRow | None:
    """The pass that an E event ends; ``None`` (and a count) when begin, labels or times are missing."""
    begins = spans.begins[lane]
    if not begins:
        intake.dropped["end events without a begin"] += 1
        return None
    begin, end = begins.pop(), event.get("ts")
    args = event.get("args") or {}
    labels = [args.get(key) for key in ("iteration", "pp_rank", "model_chunk", "microbatch")]
    if not all(isinstance(label, int) and label >= 0 for label in labels):
        intake.dropped["passes whose end event lacks a label"] += 1
        return None
    if not (isinstance(begin, int | float) and isinstance(end, int | float)):
        intake.dropped["passes without times"] += 1
        return None
    times = intake.span(begin * NS_PER_US, end * NS_PER_US, NS_PER_US)
    if times is None:
        return None
    iteration, stage, chunk, microbatch = (int(label) for label in labels if label is not None)
    kind = KINDS[lane[1]]
    order = spans.seen[iteration, stage, kind]
    spans.seen[iteration, stage, kind] += 1
    return PassRow(iteration, 0, stage, kind, chunk, microbatch, order, *times, lane[1])


def _layout(rows: Sequence[PassRow], where: str) -> Layout:
    """Sizes from the labels: they are 0-based and complete, or the recording misses a rank."""
    stages = sorted({row.stage for row in rows})
    missing = sorted(set(range(stages[-1] + 1)) - set(stages))
    if missing:
        raise TraceError(f"{where}: pipeline ranks {', '.join(map(str, missing))} of {stages[-1] + 1} are missing")
    vpp = 1 + max(row.chunk for row in rows)
    pp = len(stages)
    return Layout(
        pp=pp,
        vpp=vpp,
        world_size=pp,
        microbatches=1 + max(row.microbatch for row in rows),
        schedule="interleaved" if vpp > 1 else "1f1b",
        group_size=_group_size(rows) if vpp > 1 else None,
    )


def _group_size(rows: Sequence[PassRow]) -> int:
    """G: forwards of the first chunk before the first forward of another one, on rank 0 of the first step."""
    first = min(row.step for row in rows)
    forwards = [row for row in rows if row.step == first and row.stage == 0 and row.kind == PassKind.FORWARD]
    forwards.sort(key=lambda row: row.start_ns)
    return max(1, next((k for k, row in enumerate(forwards) if row.chunk != forwards[0].chunk), len(forwards)))
