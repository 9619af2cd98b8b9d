"""What the parsers of pipeline recordings share: rows, their checks, and the step-level completeness rule."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import orjson

from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.layout import Layout
from replay.recording import PassKind, PipelineRecording
from replay.trace import Health

_NOT_JSON = re.compile(rb"-?\b(?:NaN|Infinity)\b")
_LIMIT_NS = 1 << 62  # 146 years: differences of two such times still fit 64 bits
COMPUTE = (PassKind.FORWARD, PassKind.BACKWARD)


class PassRow(NamedTuple):
    """One recorded pass; fields as in :class:`~replay.recording.PipelineRecording`."""

    step: int
    dp_rank: int
    stage: int
    kind: PassKind
    chunk: int
    microbatch: int
    order: int
    start_ns: int
    dur_ns: int
    name: str


@dataclass
class Intake:
    """Counts what a file held while its rows are collected; becomes the Health record."""

    events: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    clipped: Counter[str] = field(default_factory=Counter)
    inferred: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)

    def span(self, start_ns: float, end_ns: float, resolution_ns: int) -> tuple[int, int] | None:
        """(start, duration) in whole ns; ``None`` (and a count) for times that are no times.

        An end before its start by no more than the clock's resolution is rounding: its duration becomes 0.
        """
        if not (isfinite(start_ns) and isfinite(end_ns)):
            self.dropped["passes whose times are not finite"] += 1
            return None
        if max(abs(start_ns), abs(end_ns)) >= _LIMIT_NS:
            self.dropped["passes whose times are centuries away"] += 1
            return None
        duration = round(end_ns) - round(start_ns)
        if duration < -resolution_ns:
            self.dropped["passes that end before they start"] += 1
            return None
        if duration < 0:
            self.clipped["durations below zero by less than the clock's resolution"] += 1
        return round(start_ns), max(duration, 0)

    def health(self) -> Health:
        """The counts so far as a frozen record."""
        return Health(
            events=self.events,
            dropped=dict(self.dropped),
            skipped=dict(self.skipped),
            clipped=dict(self.clipped),
            inferred=dict(self.inferred),
            warnings=tuple(self.warnings),
        )


@dataclass(frozen=True, slots=True)
class Source:
    """Facts of a recording besides its rows."""

    layout: Layout
    resolution_ns: int
    format: str
    files: tuple[str, ...]
    steps_total_ns: dict[int, int] = field(default_factory=dict)
    layers: int | None = None


def load_json(file: SourceFile) -> Any:
    """A whole JSON document; the non-numbers that Python's json writes (NaN, Infinity) become null."""
    try:
        return orjson.loads(_NOT_JSON.sub(b"null", file.read()))
    except orjson.JSONDecodeError as error:
        raise TraceError(f"{file.name}: not valid JSON ({error}); record or copy it again") from error


def complete_steps(rows: Sequence[PassRow], layout: Layout, intake: Intake, where: str) -> list[PassRow]:
    """Rows of the steps in which every worker ran m·v forwards and as many backwards; the others are dropped.

    Raises :class:`TraceError` naming the counts of the first incomplete step when no step is complete.
    """
    if layout.microbatches is None:
        raise TraceError(f"{where}: the number of micro-batches is not known; give --microbatches")
    expected = layout.microbatches * layout.vpp
    counts: dict[int, Counter[tuple[int, int, PassKind]]] = defaultdict(Counter)
    for row in rows:
        counts[row.step][row.dp_rank, row.stage, row.kind] += 1
    flaws = {step: flaw for step in sorted(counts) if (flaw := _flaw(counts[step], layout, expected))}
    if len(flaws) == len(counts):
        detail = next(iter(flaws.values()), "the files hold no passes")
        raise TraceError(f"{where}: no complete iteration: {detail}")
    if flaws:
        intake.dropped["iterations with passes missing"] += len(flaws)
        step, flaw = next(iter(flaws.items()))
        intake.warnings.append(f"{where}: {len(flaws)} of {len(counts)} iterations left out; iteration {step}: {flaw}")
    return [row for row in rows if row.step not in flaws]


def _flaw(counts: Counter[tuple[int, int, PassKind]], layout: Layout, expected: int) -> str:
    """What a step lacks, in words; empty when it is complete. Recordings may hold fewer replicas than ran."""
    for dp_rank in sorted({dp_rank for dp_rank, _, _ in counts}):
        for stage in range(layout.pp):
            forward, backward = (counts[dp_rank, stage, kind] for kind in COMPUTE)
            if forward != expected or backward != expected:
                worker = f"pipeline rank {stage}" + (f" of data-parallel rank {dp_rank}" if layout.dp > 1 else "")
                return f"{worker} has {forward} forward and {backward} backward passes, expected {expected} each"
    return ""


def recording(rows: Iterable[PassRow], source: Source, health: Health) -> PipelineRecording:
    """Columns of the rows, sorted by step, worker and start."""
    ordered = sorted(rows, key=lambda row: (row.step, row.dp_rank, row.stage, row.start_ns, row.order))

    def ints(position: int, dtype: type[np.signedinteger]) -> np.ndarray:
        try:
            return np.fromiter((row[position] for row in ordered), dtype, len(ordered))
        except OverflowError as error:
            column, where = PassRow._fields[position], ", ".join(source.files)
            raise TraceError(f"{where}: a {column} is too large to be one; the file is damaged") from error

    return PipelineRecording(
        step=ints(0, np.int64),
        dp_rank=ints(1, np.int32),
        stage=ints(2, np.int32),
        kind=ints(3, np.int8),
        chunk=ints(4, np.int32),
        microbatch=ints(5, np.int32),
        order=ints(6, np.int32),
        start_ns=ints(7, np.int64),
        dur_ns=ints(8, np.int64),
        names=tuple(row.name for row in ordered),
        layout=source.layout,
        resolution_ns=source.resolution_ns,
        format=source.format,
        files=source.files,
        health=health,
        steps_total_ns=source.steps_total_ns,
        layers=source.layers,
    )
